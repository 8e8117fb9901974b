"""SVG line charts over time, written as text without a library.

Axes have round numbers; long series are downsampled to the least and the greatest value of each
pixel column, so that no peak is lost.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from xml.sax.saxutils import escape

WIDTH: Final = 960
HEIGHT: Final = 420
LEFT: Final = 64
RIGHT: Final = 16
TOP: Final = 40
BOTTOM: Final = 36
COLOURS: Final = ("#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d")
STYLE: Final = (
    "text{font:12px system-ui,sans-serif;fill:#374151}.title{font-size:15px;font-weight:600}"
    ".grid{stroke:#e5e7eb}.line{fill:none;stroke-width:1.5;stroke-linejoin:round}"
)
DAY: Final = 86_400
STEPS: Final = (1, 60, 300, 900, 3600, 10_800, 21_600, DAY, 7 * DAY, 30 * DAY, 91 * DAY, 365 * DAY)
"""Distances between ticks of the time axis, in seconds."""

Points = Sequence[tuple[float, float]]
"""Seconds since 1970 and values, in the order of time."""


def svg(title: str, series: Mapping[str, Points]) -> str:
    """Return the chart of these series."""
    times = [x for points in series.values() for x, _ in points]
    values = [y for points in series.values() for _, y in points]
    x_marks = _time_marks(min(times), max(times))
    y_marks = _marks(min(values), max(values))
    first, last = min(times), max(*times, min(times) + 1)
    low, high = y_marks[0], y_marks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + (x - first) / (last - first) * (WIDTH - LEFT - RIGHT)
        return across, HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="{NAMESPACE}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>',
    ]
    for mark in y_marks:
        y = place(first, mark)[1]
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>')
    for mark in x_marks:
        x = place(mark, low)[0]
        parts.append(
            f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">'
            f"{_time_text(mark, last - first)}</text>"
        )
    legend = float(WIDTH - RIGHT)
    for number, (name, points) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        spots = (place(x, y) for x, y in thinned(points, first, last))
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in spots)
        parts.append(f'<path class="line" stroke="{colour}" d="M{path}"/>')
        parts.append(
            f'<text x="{legend:.0f}" y="20" text-anchor="end" style="fill:{colour}">'
            f"{escape(name)}</text>"
        )
        legend -= 8.0 * len(name) + 16
    return "\n".join([*parts, "</svg>", ""])


NAMESPACE: Final = "http" + "://www.w3.org/2000/svg"


def thinned(points: Points, first: float, last: float) -> Iterator[tuple[float, float]]:
    """Yield at most two points for each pixel: its least and its greatest."""
    width = WIDTH - LEFT - RIGHT
    if len(points) <= width:
        yield from points
        return
    columns: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        columns.setdefault(int((point[0] - first) / (last - first) * width), []).append(point)
    for inside in columns.values():
        least = min(inside, key=lambda point: point[1])
        greatest = max(inside, key=lambda point: point[1])
        yield from sorted({least, greatest})


def _marks(low: float, high: float) -> list[float]:
    """Return four to ten round numbers that span the range."""
    if low == high:
        low, high = low - 1, high + 1
    rough = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(x * power for x in (1, 2, 5, 10) if x * power >= rough)
    return [n * step for n in range(math.floor(low / step), math.ceil(high / step) + 1)]


def _time_marks(first: float, last: float) -> list[float]:
    step = next((step for step in STEPS if (last - first) / step <= 8), STEPS[-1])
    return [n * step for n in range(math.ceil(first / step), math.floor(last / step) + 1)]


def _time_text(seconds: float, span: float) -> str:
    form = "%H:%M" if span < 2 * DAY else "%d %b" if span < 400 * DAY else "%b %Y"
    return datetime.fromtimestamp(seconds, UTC).strftime(form)
