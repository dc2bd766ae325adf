//! Ways for connections on the grid: the cheapest one around boxes, as few corners and crossings as can be. Ways to one port flow together.

use super::Link;
use super::place::Placed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The way of a connection: its corners, from the port it leaves to the port it enters, or to a way that leads there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wire {
    pub points: Vec<(usize, usize)>,
    /// It ends at its port, where an arrow stands; else it flows into another.
    pub arrives: bool,
    /// Ways to one port have one number.
    pub net: usize,
}

const STEP: u32 = 2;
/// Rows are twice as high as columns are wide.
const STEP_VERTICAL: u32 = 4;
const CORNER: u32 = 12;
const CROSSING: u32 = 14;
/// Through the cells before a port where others have to come or go.
const IN_THE_WAY: u32 = 10;
/// Such cells of each port.
const WAY_LEN: usize = 3;
/// Orders in which ways are looked for.
const TRIES_MAX: usize = 24;
/// Along a box: close, but not nice.
const BESIDE: u32 = 2;

const DIRECTIONS: [(isize, isize); 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];

#[derive(Clone, Copy, Default)]
struct Cell {
    is_box: bool,
    beside: bool,
    /// Nets along and across, from 1.
    along: u16,
    across: u16,
    /// Only this net may be here: it leads to a port.
    kept_for: u16,
    /// Others should not be here.
    way_of: u16,
}

struct Grid {
    width: usize,
    cells: Vec<Cell>,
}

/// All ways, or none where some connection finds none.
pub(super) fn route(placed: &[Placed], links: &[Link], width: usize, height: usize) -> Option<Vec<Wire>> {
    let mut grid = Grid { width, cells: vec![Cell::default(); width * height] };
    for placed in placed {
        for y in placed.y.saturating_sub(1)..placed.y + placed.height + 1 {
            for x in placed.x.saturating_sub(1)..placed.x + placed.width + 1 {
                let inside = (placed.y..placed.y + placed.height).contains(&y)
                    && (placed.x..placed.x + placed.width).contains(&x);
                let cell = &mut grid.cells[y * width + x];
                cell.is_box |= inside;
                cell.beside = true;
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
        let (start, end) = (placed[link.from.0].exit(link.from.1), placed[link.to.0].entry(link.to.1));
        grid.cells[start.1 * width + start.0].kept_for = *net;
        grid.cells[end.1 * width + end.0].kept_for = *net;
        for step in 0..WAY_LEN {
            grid.cells[start.1 * width + (start.0 + step).min(width - 1)].way_of = *net;
            grid.cells[end.1 * width + end.0.saturating_sub(step)].way_of = *net;
        }
    }
    let mut order: Vec<usize> = (0..links.len()).collect();
    let distance = |link: &Link| {
        let (start, end) = (placed[link.from.0].exit(link.from.1), placed[link.to.0].entry(link.to.1));
        start.0.abs_diff(end.0) + 2 * start.1.abs_diff(end.1)
    };
    order.sort_by_key(|at| distance(&links[*at]));
    let bare = grid.cells.clone();
    // Whoever finds no way goes before all others at the next try.
    for _ in 0..TRIES_MAX {
        let mut wires: Vec<Option<Wire>> = vec![None; links.len()];
        let blocked = order.iter().position(|at| {
            let link = links[*at];
            let (start, end) = (placed[link.from.0].exit(link.from.1), placed[link.to.0].entry(link.to.1));
            wires[*at] = grid.find(start, end, nets[*at]);
            wires[*at].is_none()
        });
        let Some(blocked) = blocked else { return wires.into_iter().collect() };
        order[..=blocked].rotate_right(1);
        grid.cells.clone_from(&bare);
    }
    None
}

impl Grid {
    /// The cheapest way; it takes the cells it leads through.
    fn find(&mut self, start: (usize, usize), end: (usize, usize), net: u16) -> Option<Wire> {
        let at = |(x, y): (usize, usize)| y * self.width + x;
        let mut cost = vec![u32::MAX; 4 * self.cells.len()];
        let mut before = vec![usize::MAX; 4 * self.cells.len()];
        let mut heap = BinaryHeap::new();
        let first = 4 * at(start);
        cost[first] = 0;
        heap.push((Reverse(0), first));
        let last = loop {
            let (Reverse(so_far), state) = heap.pop()?;
            if so_far > cost[state] {
                continue;
            }
            let (cell, direction) = (state / 4, state % 4);
            let here = self.cells[cell];
            let joins = here.along == net || here.across == net;
            if cell == at(end) && direction == 0 || joins && (state != first) {
                break state;
            }
            for (turn, (dx, dy)) in DIRECTIONS.iter().enumerate() {
                if turn == (direction + 2) % 4 {
                    continue;
                }
                let is_corner = turn != direction;
                // A corner takes the whole cell.
                if is_corner && (self.is_taken(cell, true, net) || self.is_taken(cell, false, net)) {
                    continue;
                }
                let (x, y) = (cell % self.width, cell / self.width);
                let (Some(x), Some(y)) = (x.checked_add_signed(*dx), y.checked_add_signed(*dy)) else {
                    continue;
                };
                if x >= self.width || y >= self.cells.len() / self.width {
                    continue;
                }
                let next = y * self.width + x;
                let there = self.cells[next];
                let kept = there.kept_for != 0 && there.kept_for != net;
                let is_along = *dy == 0;
                if there.is_box || kept || self.is_taken(next, is_along, net) {
                    continue;
                }
                let price = if is_along { STEP } else { STEP_VERTICAL }
                    + if is_corner { CORNER } else { 0 }
                    + if self.is_taken(next, !is_along, net) { CROSSING } else { 0 }
                    + if there.beside { BESIDE } else { 0 }
                    + if there.way_of != 0 && there.way_of != net && is_along { IN_THE_WAY } else { 0 };
                let (state_next, cost_next) = (4 * next + turn, so_far + price);
                if cost_next < cost[state_next] {
                    cost[state_next] = cost_next;
                    before[state_next] = state;
                    heap.push((Reverse(cost_next), state_next));
                }
            }
        };
        let mut states = vec![last];
        while before[states[states.len() - 1]] != usize::MAX {
            states.push(before[states[states.len() - 1]]);
        }
        states.reverse();
        let arrives = last / 4 == at(end) && self.cells[last / 4].along != net;
        Some(self.take(&states, net, arrives))
    }

    fn is_taken(&self, cell: usize, along: bool, net: u16) -> bool {
        let taken = if along { self.cells[cell].along } else { self.cells[cell].across };
        taken != 0 && taken != net
    }

    fn take(&mut self, states: &[usize], net: u16, arrives: bool) -> Wire {
        let mut points = Vec::new();
        let place = |cell: usize, width: usize| (cell % width, cell / width);
        for (at, state) in states.iter().enumerate() {
            let (cell, came) = (state / 4, state % 4);
            let goes = states.get(at + 1).map_or(came, |next| next % 4);
            for direction in [came, goes] {
                let taken = &mut self.cells[cell];
                if direction % 2 == 0 {
                    taken.along = net
                } else {
                    taken.across = net
                };
            }
            if at == 0 || at + 1 == states.len() || came != goes {
                points.push(place(cell, self.width));
            }
        }
        Wire { points, arrives, net: usize::from(net) }
    }
}
