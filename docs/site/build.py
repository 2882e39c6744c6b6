"""Build the site: put the pages together, let the generator write HTML, and turn equations into MathML.

The pages are finished before the generator sees them, so that any generator that reads mkdocs.yml can build them.
"""

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from posixpath import dirname, join, normpath, relpath

from api import api
from commands import commands
from defaults import sb3_defaults
from latex2mathml.converter import convert
from notebooks import page_of

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
GENERATED = {"commands": commands, "api": api, "defaults": sb3_defaults}
COPIED = {
    ".md",
    ".png",
    ".svg",
    ".html",
    ".css",
    ".js",
    ".ipynb",
}  # curves and figures for print stay in the repository
LANGUAGES = {".py": "python", ".mjs": "javascript"}  # of examples
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def sources() -> dict[str, str]:
    """Every file of the site with the file of the repository that it is made from."""
    files = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}
    for path in sorted((REPOSITORY / "docs").rglob("*")):
        inside = path.relative_to(REPOSITORY / "docs")
        if path.suffix in COPIED and path.is_file():
            files[inside.as_posix()] = f"docs/{inside.as_posix()}"
        if path.suffix == ".ipynb":
            files[inside.with_suffix(".md").as_posix()] = f"docs/{inside.as_posix()}"
    for path in sorted((REPOSITORY / "examples").iterdir()):
        if path.suffix in LANGUAGES:
            files[f"examples/{path.stem}.md"] = f"examples/{path.name}"
    return files


def write_pages(folder: Path) -> None:
    """Write every page as Markdown, and copy every picture."""
    files = sources()
    for page, source in files.items():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        if page.endswith(".md"):
            (folder / page).write_text(_linked(_markdown(REPOSITORY / source), page, files))
        else:
            shutil.copyfile(REPOSITORY / source, folder / page)


def _markdown(path: Path) -> str:
    if path.suffix == ".ipynb":
        return page_of(path)
    text = path.read_text()
    if path.suffix in LANGUAGES:
        return f"# {path.name}\n\n```{LANGUAGES[path.suffix]}\n{text}```\n"
    for name, make in GENERATED.items():
        marker = f"<!-- generated: {name} -->"
        if marker in text:
            text = text.replace(marker, make())
    return text


def _linked(markdown: str, page: str, files: dict[str, str]) -> str:
    """Lead links between files of the repository to their pages."""
    pages = {source: target for target, source in reversed(files.items())}
    here = dirname(files[page])

    def target(match: re.Match[str]) -> str:
        path = normpath(join(here, match[1]))
        path = f"{path}/README.md" if f"{path}/README.md" in pages else path
        return f"]({relpath(pages[path], dirname(page) or '.')}" if path in pages else match[0]

    return LINK.sub(target, markdown)


def write_equations(folder: Path) -> None:
    """Write every equation as MathML, which browsers show without a script."""
    for path in folder.rglob("*.html"):
        text = path.read_text()
        if 'class="arithmatex"' in text:
            path.write_text(EQUATION.sub(lambda match: _mathml(html.unescape(match[2]), match[1] == "div"), text))


def _mathml(latex: str, block: bool) -> str:
    math = convert(latex, display="block" if block else "inline")
    if "\\" in math:
        raise SystemExit(f"latex2mathml does not know all of {latex}")
    return math


def build(folder: Path) -> None:
    """Make the site in a folder; the site is in its part `site`."""
    shutil.rmtree(folder / "pages", ignore_errors=True)
    write_pages(folder / "pages")
    shutil.copy(HERE / "mkdocs.yml", folder)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", folder / "mkdocs.yml"]
    built = subprocess.run(command, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"})
    if built.returncode:
        raise SystemExit(built.returncode)
    write_equations(folder / "site")
    print(f"open {folder / 'site' / 'index.html'}")


if __name__ == "__main__":
    build(Path(sys.argv[1]))
