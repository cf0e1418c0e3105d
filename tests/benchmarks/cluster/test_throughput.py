"""What a run sends is what its folder becomes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.cluster.throughput import record_stream
from handrail.executors.parcel import Changes
from handrail.learning import Record


def test_a_stream_has_the_records_and_the_files_of_a_run(tmp_path: Path) -> None:
    stream = record_stream(seconds=0.5, checkpoint_seconds=0.0)
    contents = [one for window in stream.windows for one in window]
    records = [one for one in contents if isinstance(one, Record)]
    assert [one.episode for one in records] == list(range(len(records)))
    for one in contents:
        if isinstance(one, Changes):
            one.make(tmp_path)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == len(records)
    newest = f"episode-{len(records):08d}.safetensors"
    assert (tmp_path / "checkpoints" / newest).exists()
    assert stream.sent > max(map(len, stream.files))
