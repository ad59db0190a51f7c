"""Compares the constraint labels of the tensor level wherever they stand. Takes the source folder."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
definitions = (root / "dialect/IR/SmeltOps.td").read_text()
page = (root / "docs/dialect.md").read_text()
verifiers = (root / "dialect/IR/SmeltVerifiers.cpp").read_text()
invalid = root / "tests/dialect/IR/invalid"


def constraints(text):
    """The items "- (C1) ..." of a list, by label, blanks and line breaks as one blank."""
    items = re.findall(r"^\s*- \((\w\d+)\) (.*?)(?=^\s*- \(|^\s*$|^\s*\}\])", text, re.M | re.S)
    return {label: " ".join(words.split()) for label, words in items}


def sections(text, pattern):
    """{first group of a match: text up to the next match}."""
    matches = list(re.finditer(pattern, text, re.M))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    return [(match.group(1), text[match.start() : end]) for match, end in zip(matches, ends)]


defined = {name: constraints(text) for name, text in sections(definitions, r'^def Smelt_\w+Op : Smelt_\w+<"(\w+)"')}
documented = {name: constraints(text) for name, text in sections(page, r"^##+ (?:`smelt\.(?=\w+`))?(\w[\w ]*)`?")}
checked = {}
for name, text in sections(verifiers, r"^LogicalResult (\w+)Op::verify"):
    mnemonic = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    checked.setdefault(mnemonic, set()).update(re.findall(r"// (C\d+)", text))

problems = []
for name, items in defined.items():
    if name not in documented and name not in ("return", "yield"):
        problems.append(f"docs/dialect.md has no section on smelt.{name}")
        continue
    for label in items.keys() | documented.get(name, {}).keys():
        texts = items.get(label), documented.get(name, {}).get(label)
        if texts[0] != texts[1]:
            problems.append(f"smelt.{name} {label}: SmeltOps.td says {texts[0]!r}, docs/dialect.md {texts[1]!r}")
    for label in items:
        if label not in checked.get(name, ()):
            problems.append(f"smelt.{name} {label}: no verifier has the label")
        test = invalid / f"{name}.mlir"
        if not test.exists() or not re.search(rf"^// {label}\b", test.read_text(), re.M):
            problems.append(f"smelt.{name} {label}: no negative test in {test}")
for label in documented["Uses of weights"]:
    if f"// {label}" not in verifiers or f"// {label}" not in (invalid / "weight_uses.mlir").read_text():
        problems.append(f"uses of weights {label}: no check or no negative test")
if len(defined) < 15 or len(documented["Uses of weights"]) != 5:
    problems.append("the files are not laid out as this script expects")
sys.exit("\n".join(problems) or 0)
