# The lit suite: every .mlir and .test file under tests/ whose tools were built, run by ctest as "lit".
# lit, FileCheck, not and split-file are those of the llvm-22 package.
find_program(SMELT_LIT NAMES lit HINTS /usr/lib/llvm-22/bin /usr/lib/llvm-22/utils/lit NO_DEFAULT_PATH)
find_program(SMELT_FILECHECK NAMES FileCheck FileCheck-22 HINTS /usr/lib/llvm-22/bin)
find_package(Python3 COMPONENTS Interpreter)

function(smelt_add_lit_suite)
  if(NOT SMELT_LIT OR NOT SMELT_FILECHECK)
    message(WARNING "lit or FileCheck not found (llvm-22-tools): the lit tests are left out")
    return()
  endif()
  cmake_path(GET SMELT_FILECHECK PARENT_PATH SMELT_LLVM_TOOLS_DIR)
  set(SMELT_LIT_TOOLS "")
  foreach(tool smelt-opt smelt-interpret smeltc smelt-run)
    if(TARGET ${tool})
      list(APPEND SMELT_LIT_TOOLS ${tool})
    endif()
  endforeach()
  configure_file("${PROJECT_SOURCE_DIR}/tests/lit.site.cfg.py.in" "${PROJECT_BINARY_DIR}/tests/lit.site.cfg.py" @ONLY)
  add_test(NAME lit COMMAND "${SMELT_LIT}" -sv --no-progress-bar "${PROJECT_BINARY_DIR}/tests")
  if(SMELT_LIT_TOOLS)
    # `ninja check-lit` builds the tools and runs the suite.
    add_custom_target(check-lit COMMAND "${SMELT_LIT}" -sv "${PROJECT_BINARY_DIR}/tests" DEPENDS ${SMELT_LIT_TOOLS}
                      USES_TERMINAL)
  endif()
endfunction()
