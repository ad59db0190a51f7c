# One suite for all lit tests. A tool that was built is a feature of its name: a test that needs it says
# `REQUIRES: smeltc`; tests of smelt-opt need not, since the folders dialect/ are left out without it.
import os
import shutil
import sys

import lit.formats

config.name = "smeltc"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.smelt_binary_dir, "tests")
config.excludes = ["Inputs", "golden"]

config.available_features.update(tool for tool in config.tools if tool)
if "smelt-opt" not in config.available_features:
    config.excludes.append("dialect")
if config.sanitize:
    config.available_features.add("asan")

path = [os.path.join(config.smelt_binary_dir, "bin"), config.llvm_tools_dir, os.environ["PATH"]]
config.environment["PATH"] = os.pathsep.join(path)
config.environment["LIT_TEST"] = "1"
for variable in ("HOME", "TMPDIR", "ASAN_OPTIONS", "UBSAN_OPTIONS"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

# Pages are looked at in a browser where there is one.
chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if chromium:
    config.available_features.add("chromium")
# Where smeltc finds it: a GPU's assembler needs no GPU.
if shutil.which("ptxas") or os.access("/usr/local/cuda/bin/ptxas", os.X_OK):
    config.available_features.add("ptxas")
config.substitutions.append(("%chromium", chromium or "chromium"))
config.substitutions.append(("%python", sys.executable))
config.substitutions.append(("%specs", os.path.join(config.smelt_source_dir, "specs")))
config.substitutions.append(("%inputs", os.path.join(config.test_source_root, "Inputs")))
