"""Write README's stage table and tree from dvc.yaml and the modules' first lines: python docs/generate.py."""

import ast
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]


def stage_table() -> str:
    """Each stage of dvc.yaml, what it does, what it writes."""
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    lines = ["| stage | what it does | writes |", "|---|---|---|"]
    for name, stage in stages.items():
        body = stage.get("do", stage)
        outs = [next(iter(out)) for key in ("outs", "metrics") for out in body.get(key, [])]
        written = ", ".join(f"`{out.replace('${key}', 'NAME')}`" for out in outs)
        lines.append(f"| `{name}` | {body['desc']} | {written} |")
    return "\n".join(lines)


def tree() -> str:
    """Every package and module of flows/ and pipelines/ with its first line."""
    lines = []
    for top in ("flows", "pipelines"):
        for path in sorted((ROOT / top).rglob("*.py"), key=lambda p: (p.parent.parts, p.name != "__init__.py", p.name)):
            place = path.relative_to(ROOT)
            says = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").splitlines()[0]
            depth = len(place.parts) - (2 if path.name == "__init__.py" else 1)
            name = f"{place.parent.name}/" if path.name == "__init__.py" else place.name
            lines.append(f"{'  ' * depth + name:<30} {says}")
    return "```\n" + "\n".join(lines) + "\n```"


def readme(text: str) -> str:
    """`text` with what stands between its markers made anew."""
    for name, content in {"stages": stage_table(), "tree": tree()}.items():
        start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(start)
        text = f"{head}{start}{content}\n{end}{rest.split(end)[1]}"
    return text


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(readme(path.read_text(encoding="utf-8")), encoding="utf-8")
