"""Where the boxes and the arrows of a plan's picture stand, so that no line runs through a box."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import NamedTuple

from tasks.canvas import MARGIN, WIDTH, Point

_GAP = 26.0  # between columns

Edge = tuple[str, str]
Columns = list[list[str]]


class Layout(NamedTuple):
    """Where everything stands, from the top left."""

    height: float
    width: float  # of a box
    tall: float  # of a box
    places: dict[str, Point]  # box -> its left edge, its middle
    routes: dict[Edge, list[Point]]  # a start, then two handles and an end for each piece of a curve


def side_by_side(columns: Columns, edges: Sequence[Edge]) -> Layout:
    """Stand each level in a column; an edge that skips columns gets a lane of its own between their boxes."""
    level = {key: index for index, column in enumerate(columns) for key in column}
    chains = {
        (one, two): [one, *(f"{one}~{at}" for at in range(level[one] + 1, level[two])), two] for one, two in edges
    }
    slots = _untangled(columns, level, chains.values())
    rooms = [[76.0 if key in level else 24.0 for key in column] for column in slots]
    tallest, inner, tall = max(map(sum, rooms)), WIDTH - 2 * MARGIN - 12, 62.0
    width = min((inner + _GAP) / len(columns) - _GAP, 160.0)
    pitch = min((inner - width) / max(len(columns) - 1, 1), width + 80)
    places: dict[str, Point] = {}
    for index, (column, room) in enumerate(zip(slots, rooms, strict=True)):
        top = MARGIN + (tallest - sum(room)) / 2
        for key, own in zip(column, room, strict=True):
            places[key] = (MARGIN + index * pitch, top + own / 2)
            top += own
    ends = _ends(places, {edge: places[chain[-2]][1] for edge, chain in chains.items()}, tall)
    routes = {edge: _bends([places[key] for key in chain[:-1]], ends[edge], width) for edge, chain in chains.items()}
    return Layout(max(tallest, 114) + 2 * MARGIN + 22, width, tall, places, routes)


def _untangled(columns: Columns, level: Mapping[str, int], chains: Collection[Sequence[str]]) -> Columns:
    """Add the lanes to the columns, then order each by where its neighbours stand, which leaves few lines crossing."""
    slots = [list(column) for column in columns]
    near: dict[str, list[str]] = defaultdict(list)
    for chain in chains:
        for at, key in enumerate(chain[1:-1], level[chain[0]] + 1):
            if key not in slots[at]:
                slots[at].append(key)
        for one, two in pairwise(chain):
            near[one].append(two)
            near[two].append(one)
    for sweep in (slots, slots[::-1], slots):
        for fixed, free in pairwise(sweep):
            place = {key: index - len(fixed) / 2 for index, key in enumerate(fixed)}
            mean = {key: fmean([place[other] for other in near[key] if other in place] or [0]) for key in free}
            free.sort(key=mean.__getitem__)
    return slots


def _ends(places: Mapping[str, Point], order: Mapping[Edge, float], tall: float) -> dict[Edge, Point]:
    """Return where each arrow ends: those of one box spread over its left edge, in the given order."""
    arriving: dict[str, list[Edge]] = defaultdict(list)
    for edge in sorted(order, key=order.__getitem__):
        arriving[edge[1]].append(edge)
    ends = {}
    for target, arrows in arriving.items():
        left, middle = places[target]
        gap = min(13.0, (tall - 14) / len(arrows))
        ends.update({edge: (left, middle + (at - (len(arrows) - 1) / 2) * gap) for at, edge in enumerate(arrows)})
    return ends


def _bends(stops: Sequence[Point], end: Point, width: float) -> list[Point]:
    """Return a route out of the first stop's right side, straight through the lanes, and bent between the columns."""
    (x, y), route = stops[0], [(stops[0][0] + width, stops[0][1])]
    for x, y in (*stops[1:], end):
        start, half = route[-1], (x - route[-1][0]) / 2
        route += [(start[0] + half, start[1]), (x - half, y), (x, y)]
        if (x, y) != end:
            route += [(x, y), (x + width, y), (x + width, y)]
    return route


def stairs(columns: Columns, edges: Sequence[Edge], tail: Collection[str]) -> Layout:
    """Give each box a row of its own, further right than all before it: no line from below one can meet another."""
    keys = [key for column in columns for key in column]
    width, tall, drop, bend = 230.0, 56.0, 16.0, 7.0
    pitch = (WIDTH - 2 * MARGIN - width - 12) / (len(keys) - 1)
    places = {
        key: (MARGIN + at * pitch, MARGIN + tall / 2 + at * (tall + 12) + (14 if key in tail else 0))
        for at, key in enumerate(keys)
    }
    ends = _ends(places, {edge: -places[edge[0]][0] for edge in edges}, tall)
    routes = {}
    for edge, (x, y) in ends.items():
        left, top = places[edge[0]][0] + drop, places[edge[0]][1] + tall / 2
        turn, away = (left, y - bend), (left + bend, y)
        routes[edge] = [(left, top), (left, top), turn, turn, (left, y), (left, y), away, away, (x, y), (x, y)]
    return Layout(places[keys[-1]][1] + tall / 2 + MARGIN + 34, width, tall, places, routes)
