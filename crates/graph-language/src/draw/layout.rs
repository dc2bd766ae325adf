//! Layout: boxes in columns, later ones further right, connected ones at the same height where
//! possible.

use super::{Block, Link};

/// Position and size of a box on the grid, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BoxArea {
    pub x: usize,
    pub y: usize,
    pub width: usize,
    pub height: usize,
    /// Rows above its first port.
    head: usize,
}

impl BoxArea {
    /// Returns the cell in front of an input port.
    pub const fn entry(&self, port: usize) -> (usize, usize) {
        (self.x - 1, self.y + self.head + port)
    }

    /// Returns the cell after an output port.
    pub const fn exit(&self, port: usize) -> (usize, usize) {
        (self.x + self.width, self.y + self.head + port)
    }
}

/// Number of passes that reorder the columns.
const SWEEPS: usize = 8;

/// Positions all boxes with `padding` extra cells between them. Returns the boxes, and the width
/// and height of the drawing.
pub(super) fn layout(
    blocks: &[Block],
    links: &[Link],
    padding: usize,
) -> (Vec<BoxArea>, usize, usize) {
    let mut areas: Vec<BoxArea> = blocks.iter().map(size).collect();
    let columns = order(columns(blocks, links), links);
    let mut x = 2;
    for (at, column) in columns.iter().enumerate() {
        let passing = links.iter().filter(|link| {
            let (from, to) = (column_of(&columns, link.from.0), column_of(&columns, link.to.0));
            from.min(to) <= at && at < from.max(to) || from >= to && (at == from || at + 1 == to)
        });
        let gap = 5 + passing.count().min(16) / 2 + 2 * padding;
        let width = column.iter().map(|block| areas[*block].width).max().unwrap_or(0);
        for block in column {
            // Boxes are aligned to the left of their column.
            areas[*block].x = x;
        }
        x += width + gap;
    }
    heights(&columns, links, padding, &mut areas);
    let right = areas.iter().map(|area| area.x + area.width).max().unwrap_or(0);
    let bottom = areas.iter().map(|area| area.y + area.height).max().unwrap_or(0);
    // Rows at the bottom for connections that lead back.
    let back = links
        .iter()
        .filter(|link| column_of(&columns, link.from.0) >= column_of(&columns, link.to.0));
    (areas, right + 3 + padding, bottom + 2 + 2 * back.count() + padding)
}

fn size(block: &Block) -> BoxArea {
    let len = |text: &str| text.chars().count();
    let widest = |ports: &[&str]| ports.iter().map(|port| len(port)).max().unwrap_or(0);
    let ports = widest(&block.ins) + widest(&block.outs) + 3;
    let has_label = !block.label.is_empty() && block.label != block.name;
    let title = len(&block.name).max(if has_label { len(&block.label) } else { 0 });
    let rows = block.ins.len().max(block.outs.len());
    // A face has no port names: connections end at its name.
    let head = match (block.is_face, has_label) {
        (true, _) => 1,
        (false, true) => 3,
        (false, false) => 2,
    };
    let height = match block.is_face {
        true => 2 + rows.max(1 + usize::from(has_label)),
        false => head + rows + 1,
    };
    BoxArea { x: 0, y: 0, width: ports.max(title + 2) + 2, height, head }
}

/// Returns the columns: each box is at its longest distance from the sources. Connections that
/// close a cycle are ignored.
fn columns(blocks: &[Block], links: &[Link]) -> Vec<Vec<usize>> {
    let is_source = |block: &usize| blocks[*block].is_face && blocks[*block].ins.is_empty();
    let is_end = |block: usize| blocks[block].is_face && blocks[block].outs.is_empty();
    let mut starts: Vec<usize> = (0..blocks.len()).filter(is_source).collect();
    starts.extend((0..blocks.len()).filter(|block| !is_source(block)));
    let mut state = vec![0u8; blocks.len()];
    let (mut finished, mut back) = (Vec::new(), vec![false; links.len()]);
    for start in starts {
        visit(start, links, &mut state, &mut finished, &mut back);
    }
    let mut level = vec![0; blocks.len()];
    for block in finished.iter().rev() {
        for (at, link) in links.iter().enumerate().filter(|(_, link)| link.from.0 == *block) {
            if !back[at] {
                level[link.to.0] = level[link.to.0].max(level[*block] + 1);
            }
        }
    }
    let inner = (0..blocks.len())
        .filter(|block| !is_end(*block))
        .map(|block| level[block])
        .max()
        .unwrap_or(0);
    (0..blocks.len()).filter(|block| is_end(*block)).for_each(|block| level[block] = inner + 1);
    let last = level.iter().max().copied().unwrap_or(0);
    let mut columns = vec![Vec::new(); last + 1];
    (0..blocks.len()).for_each(|block| columns[level[block]].push(block));
    columns.retain(|column| !column.is_empty());
    columns
}

fn visit(
    block: usize,
    links: &[Link],
    state: &mut [u8],
    finished: &mut Vec<usize>,
    back: &mut [bool],
) {
    if state[block] != 0 {
        return;
    }
    state[block] = 1;
    for (at, link) in links.iter().enumerate().filter(|(_, link)| link.from.0 == block) {
        match state[link.to.0] {
            0 => visit(link.to.0, links, state, finished, back),
            1 => back[at] = true,
            _ => {}
        }
    }
    state[block] = 2;
    finished.push(block);
}

fn column_of(columns: &[Vec<usize>], block: usize) -> usize {
    columns.iter().position(|column| column.contains(&block)).unwrap_or(0)
}

/// Orders each column by the average position of its neighbours.
fn order(mut columns: Vec<Vec<usize>>, links: &[Link]) -> Vec<Vec<usize>> {
    let count = columns.iter().map(Vec::len).sum::<usize>();
    for sweep in 0..SWEEPS {
        let mut rank = vec![0.0; count];
        for column in &columns {
            column
                .iter()
                .enumerate()
                .for_each(|(at, block)| rank[*block] = at as f64 / column.len() as f64);
        }
        for column in &mut columns {
            let center = |block: &usize| {
                let of =
                    |link: &Link| match sweep % 2 == 0 {
                        true => (link.to.0 == *block)
                            .then(|| rank[link.from.0] + 0.01 * link.from.1 as f64),
                        false => (link.from.0 == *block)
                            .then(|| rank[link.to.0] + 0.01 * link.to.1 as f64),
                    };
                let near: Vec<f64> = links.iter().filter_map(of).collect();
                if near.is_empty() {
                    rank[*block]
                } else {
                    near.iter().sum::<f64>() / near.len() as f64
                }
            };
            column.sort_by(|a, b| center(a).total_cmp(&center(b)));
        }
    }
    columns
}

/// Sets the row of each box: level with its highest predecessor, below the previous box of its
/// column.
fn heights(columns: &[Vec<usize>], links: &[Link], padding: usize, areas: &mut [BoxArea]) {
    for (at, column) in columns.iter().enumerate() {
        let mut free = 1;
        for block in column {
            let straight = links.iter().filter(|link| link.to.0 == *block);
            let straight =
                straight.filter(|link| column_of(columns, link.from.0) < at).filter_map(|link| {
                    let row = areas[link.from.0].exit(link.from.1).1;
                    row.checked_sub(areas[*block].head + link.to.1)
                });
            let wanted = straight.min().unwrap_or(free);
            areas[*block].y = wanted.max(free);
            free = areas[*block].y + areas[*block].height + 1 + padding / 3;
        }
    }
}
