"""Counts the results that tests/run.sh left in a folder: ctest's *.xml, lit's *.json and its own steps.txt.

Names failed and skipped tests, ends with "N passed, N failed, N skipped" and exits 1 when a test failed.
"""
import json
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def of_ctest(path):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        skipped = case.find("skipped")
        status = case.get("status")
        if status == "run":
            outcome = "pass"
        elif status == "disabled" or (skipped is not None and "SKIP" in skipped.get("message", "")):
            outcome = "skip"
        else:  # "fail", or "notrun" because its program is missing
            outcome = "fail"
        yield outcome, f"{path.stem}: {case.get('name')}"


def of_lit(path):
    outcomes = {"PASS": "pass", "FLAKYPASS": "pass", "XFAIL": "pass", "UNSUPPORTED": "skip", "SKIPPED": "skip", "EXCLUDED": "skip"}
    for test in json.loads(path.read_text())["tests"]:
        yield outcomes.get(test["code"], "fail"), test["name"]


def of_steps(path):
    for line in path.read_text().splitlines():
        yield tuple(line.split(" ", 1))


def main():
    folder = pathlib.Path(sys.argv[1])
    results = []
    for path in sorted(folder.glob("*.xml")):
        results += of_ctest(path)
    for path in sorted(folder.glob("*.json")):
        results += of_lit(path)
    for path in sorted(folder.glob("steps.txt")):
        results += of_steps(path)
    for wanted, label in (("skip", "skipped"), ("fail", "FAILED")):
        for outcome, name in results:
            if outcome == wanted:
                print(f"{label}: {name}")
    counts = {wanted: sum(outcome == wanted for outcome, _ in results) for wanted in ("pass", "fail", "skip")}
    print(f"{counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped")
    return 1 if counts["fail"] or not counts["pass"] else 0


if __name__ == "__main__":
    sys.exit(main())
