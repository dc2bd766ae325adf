//! Routing of connections on the grid: the cheapest path around boxes, with few corners and
//! crossings. Connections to the same port form a net and join.

use super::Link;
use super::layout::BoxArea;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Path of a connection: its corners, from the output port to the input port, or to a path of the
/// same net.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wire {
    pub points: Vec<(usize, usize)>,
    /// True if the path ends at its port (drawn with an arrow); false if it joins another path of
    /// its net.
    pub reaches_port: bool,
    /// Number of the net: connections to the same port share it.
    pub net: usize,
}

const STEP_COST: u32 = 2;
/// Rows are twice as high as columns are wide.
const VERTICAL_STEP_COST: u32 = 4;
const CORNER_COST: u32 = 12;
const CROSSING_COST: u32 = 14;
/// Cost of crossing the cells in front of another net's port.
const APPROACH_COST: u32 = 10;
/// Number of such cells in front of each port.
const APPROACH_LEN: usize = 3;
/// Orders of connections that are tried.
const ATTEMPTS_MAX: usize = 24;
/// Cost of running along a box.
const NEAR_BOX_COST: u32 = 2;

const DIRECTIONS: [(isize, isize); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];

#[derive(Clone, Copy, Default)]
struct Cell {
    is_box: bool,
    is_near_box: bool,
    /// Nets that use the cell horizontally and vertically, from 1; 0 if none.
    horizontal_net: u16,
    vertical_net: u16,
    /// The only net allowed in this cell, in front of its port; 0 if any.
    reserved_net: u16,
    /// The net whose port is close; other nets pay extra. 0 if none.
    approach_net: u16,
}

struct Grid {
    width: usize,
    cells: Vec<Cell>,
}

/// Routes all connections. `None` if one of them finds no path.
pub(super) fn route(
    areas: &[BoxArea],
    links: &[Link],
    width: usize,
    height: usize,
) -> Option<Vec<Wire>> {
    let mut grid = Grid { width, cells: vec![Cell::default(); width * height] };
    for area in areas {
        for y in area.y.saturating_sub(1)..area.y + area.height + 1 {
            for x in area.x.saturating_sub(1)..area.x + area.width + 1 {
                let inside = (area.y..area.y + area.height).contains(&y)
                    && (area.x..area.x + area.width).contains(&x);
                let cell = &mut grid.cells[y * width + x];
                cell.is_box |= inside;
                cell.is_near_box = true;
            }
        }
    }
    let mut targets: Vec<(usize, usize)> = Vec::new();
    let nets: Vec<u16> = links
        .iter()
        .map(|link| {
            let known = targets.iter().position(|target| *target == link.to);
            let at = known.unwrap_or_else(|| {
                targets.push(link.to);
                targets.len() - 1
            });
            at as u16 + 1
        })
        .collect();
    for (link, net) in links.iter().zip(&nets) {
        let (start, end) =
            (areas[link.from.0].exit(link.from.1), areas[link.to.0].entry(link.to.1));
        grid.cells[start.1 * width + start.0].reserved_net = *net;
        grid.cells[end.1 * width + end.0].reserved_net = *net;
        for step in 0..APPROACH_LEN {
            grid.cells[start.1 * width + (start.0 + step).min(width - 1)].approach_net = *net;
            grid.cells[end.1 * width + end.0.saturating_sub(step)].approach_net = *net;
        }
    }
    let mut order: Vec<usize> = (0..links.len()).collect();
    let distance = |link: &Link| {
        let (start, end) =
            (areas[link.from.0].exit(link.from.1), areas[link.to.0].entry(link.to.1));
        start.0.abs_diff(end.0) + 2 * start.1.abs_diff(end.1)
    };
    order.sort_by_key(|at| distance(&links[*at]));
    let empty_cells = grid.cells.clone();
    // A connection without a path is routed first in the next attempt.
    for _ in 0..ATTEMPTS_MAX {
        let mut wires: Vec<Option<Wire>> = vec![None; links.len()];
        let blocked = order.iter().position(|at| {
            let link = links[*at];
            let (start, end) =
                (areas[link.from.0].exit(link.from.1), areas[link.to.0].entry(link.to.1));
            wires[*at] = grid.find_path(start, end, nets[*at]);
            wires[*at].is_none()
        });
        let Some(blocked) = blocked else { return wires.into_iter().collect() };
        order[..=blocked].rotate_right(1);
        grid.cells.clone_from(&empty_cells);
    }
    None
}

impl Grid {
    /// Finds the cheapest path (Dijkstra) and marks its cells as used.
    fn find_path(&mut self, start: (usize, usize), end: (usize, usize), net: u16) -> Option<Wire> {
        let at = |(x, y): (usize, usize)| y * self.width + x;
        let mut cost = vec![u32::MAX; 4 * self.cells.len()];
        let mut previous = vec![usize::MAX; 4 * self.cells.len()];
        let mut heap = BinaryHeap::new();
        let first = 4 * at(start);
        cost[first] = 0;
        heap.push((Reverse(0), first));
        let last = loop {
            let (Reverse(cost_so_far), state) = heap.pop()?;
            if cost_so_far > cost[state] {
                continue;
            }
            let (cell, direction) = (state / 4, state % 4);
            let here = self.cells[cell];
            let joins_own_net = here.horizontal_net == net || here.vertical_net == net;
            if cell == at(end) && direction == 0 || joins_own_net && (state != first) {
                break state;
            }
            for (turn, (dx, dy)) in DIRECTIONS.iter().enumerate() {
                if turn == (direction + 2) % 4 {
                    continue;
                }
                let is_corner = turn != direction;
                // A corner occupies the whole cell.
                if is_corner && (self.is_taken(cell, true, net) || self.is_taken(cell, false, net))
                {
                    continue;
                }
                let (x, y) = (cell % self.width, cell / self.width);
                let (Some(x), Some(y)) = (x.checked_add_signed(*dx), y.checked_add_signed(*dy))
                else {
                    continue;
                };
                if x >= self.width || y >= self.cells.len() / self.width {
                    continue;
                }
                let next = y * self.width + x;
                let there = self.cells[next];
                let is_reserved = there.reserved_net != 0 && there.reserved_net != net;
                let is_along = *dy == 0;
                if there.is_box || is_reserved || self.is_taken(next, is_along, net) {
                    continue;
                }
                let price = if is_along { STEP_COST } else { VERTICAL_STEP_COST }
                    + if is_corner { CORNER_COST } else { 0 }
                    + if self.is_taken(next, !is_along, net) { CROSSING_COST } else { 0 }
                    + if there.is_near_box { NEAR_BOX_COST } else { 0 }
                    + if there.approach_net != 0 && there.approach_net != net && is_along {
                        APPROACH_COST
                    } else {
                        0
                    };
                let (state_next, cost_next) = (4 * next + turn, cost_so_far + price);
                if cost_next < cost[state_next] {
                    cost[state_next] = cost_next;
                    previous[state_next] = state;
                    heap.push((Reverse(cost_next), state_next));
                }
            }
        };
        let mut states = vec![last];
        while previous[states[states.len() - 1]] != usize::MAX {
            states.push(previous[states[states.len() - 1]]);
        }
        states.reverse();
        let reaches_port = last / 4 == at(end) && self.cells[last / 4].horizontal_net != net;
        Some(self.occupy(&states, net, reaches_port))
    }

    fn is_taken(&self, cell: usize, along: bool, net: u16) -> bool {
        let taken =
            if along { self.cells[cell].horizontal_net } else { self.cells[cell].vertical_net };
        taken != 0 && taken != net
    }

    fn occupy(&mut self, states: &[usize], net: u16, reaches_port: bool) -> Wire {
        let mut points = Vec::new();
        let column_row = |cell: usize, width: usize| (cell % width, cell / width);
        for (at, state) in states.iter().enumerate() {
            let (cell, direction_in) = (state / 4, state % 4);
            let direction_out = states.get(at + 1).map_or(direction_in, |next| next % 4);
            for direction in [direction_in, direction_out] {
                let taken = &mut self.cells[cell];
                if direction % 2 == 0 {
                    taken.horizontal_net = net
                } else {
                    taken.vertical_net = net
                };
            }
            if at == 0 || at + 1 == states.len() || direction_in != direction_out {
                points.push(column_row(cell, self.width));
            }
        }
        Wire { points, reaches_port, net: usize::from(net) }
    }
}
