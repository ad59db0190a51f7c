# Finds LLVM and MLIR 22 as Debian packages them and defines smelt_mlir, the one target through which
# compiler code links them. The shared libraries are used alone: mixing them with the static archives
# registers every option and pass twice.
if(NOT MLIR_DIR)
  set(MLIR_DIR "/usr/lib/llvm-22/lib/cmake/mlir" CACHE PATH "Folder of MLIRConfig.cmake")
endif()
if(NOT LLVM_DIR)
  set(LLVM_DIR "/usr/lib/llvm-22/lib/cmake/llvm" CACHE PATH "Folder of LLVMConfig.cmake")
endif()
# No version argument: the package's version file refuses "22".
find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "smeltc needs LLVM and MLIR 22, found ${LLVM_PACKAGE_VERSION} in ${LLVM_DIR}; "
                      "install libmlir-22-dev or set MLIR_DIR")
endif()
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

add_library(smelt_mlir INTERFACE)
target_include_directories(smelt_mlir SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_link_libraries(smelt_mlir INTERFACE MLIR LLVM)
# LLVM's packages are built with RTTI and without exceptions; MLIR headers trip these two warnings.
target_compile_options(smelt_mlir INTERFACE -Wno-unused-parameter -Wno-deprecated-declarations)
