"""What a report writes goes where it says, whatever an untrusted directory holds there."""

import os

import pytest

from tests.support.curves import study_curves
from toppo.cli import main
from toppo.plotting import write_output
from toppo.rundir.layout import write_bytes


def report(folder, capsys) -> str:
    with pytest.raises(SystemExit) as leave:
        main(["report", str(folder)])
    assert leave.value.code == 73
    return capsys.readouterr().err


@pytest.fixture
def victim(tmp_path):
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def test_a_page_is_not_written_through_a_link_or_into_a_pipe(tmp_path, victim, capsys):
    folder = study_curves(tmp_path / "s")
    page = folder / "report.html"
    page.symlink_to(victim)
    assert "report.html is not a regular file: remove it" in report(folder, capsys)
    page.unlink()
    os.mkfifo(page)
    assert "report.html is not a regular file: remove it" in report(folder, capsys)
    assert victim.read_text() == "precious"
    assert not (folder / "report-figures").exists()


def test_figures_are_not_written_into_a_linked_folder_or_through_a_linked_file(tmp_path, victim, capsys):
    folder, elsewhere = study_curves(tmp_path / "s"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / "report-figures").symlink_to(elsewhere)
    assert "report-figures is a link: remove it" in report(folder, capsys)
    assert list(elsewhere.iterdir()) == []
    (folder / "report-figures").unlink()
    (folder / "report-figures").mkdir()
    (folder / "report-figures" / "curves.png").symlink_to(victim)
    assert "curves.png is not a regular file" in report(folder, capsys)
    assert victim.read_text() == "precious"


def test_a_file_is_replaced_as_a_whole_and_its_draft_is_no_way_out(tmp_path, victim):
    (tmp_path / ".page.html.tmp").symlink_to(victim)
    write_output(tmp_path / "page.html", b"new")
    assert (tmp_path / "page.html").read_bytes() == b"new"
    (tmp_path / ".status.json.tmp").symlink_to(victim)
    write_bytes(tmp_path / "status.json", b"{}")
    assert victim.read_text() == "precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["page.html", "status.json", "victim"]
