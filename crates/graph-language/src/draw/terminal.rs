//! Draws the grid as text.

use super::layout::BoxArea;
use super::{Block, Drawing};

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

#[derive(Clone, Copy, Default)]
struct Cell {
    text: Option<char>,
    /// Directions in which lines leave the cell, and their net; the second is a crossing line.
    lines: [(u8, usize); 2],
}

struct Canvas {
    width: usize,
    cells: Vec<Cell>,
}

pub(super) fn draw(drawing: &Drawing) -> String {
    let mut canvas = Canvas {
        width: drawing.width,
        cells: vec![Cell::default(); drawing.width * drawing.height],
    };
    for wire in &drawing.wires {
        let (first, last) = (wire.points[0], wire.points[wire.points.len() - 1]);
        canvas.line(first, LEFT, wire.net);
        for pair in wire.points.windows(2) {
            canvas.between(pair[0], pair[1], wire.net);
        }
        if wire.reaches_port {
            canvas.put(last, "▶");
        }
    }
    for (block, area) in drawing.blocks.iter().zip(&drawing.areas) {
        canvas.block(block, area);
    }
    canvas.text()
}

impl Canvas {
    fn put(&mut self, (x, y): (usize, usize), text: &str) {
        for (at, c) in text.chars().enumerate() {
            self.cells[y * self.width + x + at].text = Some(c);
        }
    }

    fn line(&mut self, (x, y): (usize, usize), directions: u8, net: usize) {
        let cell = &mut self.cells[y * self.width + x];
        let slot = usize::from(cell.lines[0].0 != 0 && cell.lines[0].1 != net);
        cell.lines[slot] = (cell.lines[slot].0 | directions, net);
    }

    fn between(&mut self, from: (usize, usize), to: (usize, usize), net: usize) {
        let (mut here, steps) = (from, from.0.abs_diff(to.0) + from.1.abs_diff(to.1));
        let (out, back) = match (to.0 > from.0, to.0 < from.0, to.1 > from.1) {
            (true, ..) => (RIGHT, LEFT),
            (_, true, _) => (LEFT, RIGHT),
            (.., true) => (DOWN, UP),
            _ => (UP, DOWN),
        };
        for _ in 0..steps {
            self.line(here, out, net);
            here = match out {
                RIGHT => (here.0 + 1, here.1),
                LEFT => (here.0 - 1, here.1),
                DOWN => (here.0, here.1 + 1),
                _ => (here.0, here.1 - 1),
            };
            self.line(here, back, net);
        }
    }

    fn block(&mut self, block: &Block, area: &BoxArea) {
        let (x, y, width) = (area.x, area.y, area.width);
        let [corners, line] =
            if block.is_face { ["╭╮╰╯", "─"] } else { ["┌┐└┘", "─"] };
        let corner: Vec<String> = corners.chars().map(String::from).collect();
        let inside = width - 2;
        self.put((x, y), &format!("{}{}{}", corner[0], line.repeat(inside), corner[1]));
        for row in 1..area.height - 1 {
            self.put((x, y + row), &format!("│{}│", " ".repeat(inside)));
        }
        self.put(
            (x, y + area.height - 1),
            &format!("{}{}{}", corner[2], line.repeat(inside), corner[3]),
        );
        self.put((x + 2, y + 1), &block.name);
        if !block.label.is_empty() && block.label != block.name {
            self.put((x + 2, y + 2), &block.label);
        }
        for (port, name) in block.ins.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let (_, row) = area.entry(port);
            self.put((x + 1, row), name);
        }
        for (port, name) in block.outs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let (end, row) = area.exit(port);
            self.put((end - 1 - name.chars().count(), row), name);
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for row in self.cells.chunks(self.width) {
            let line: String = row.iter().map(Cell::character).collect();
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.trim_matches('\n').to_owned() + "\n"
    }
}

impl Cell {
    fn character(&self) -> char {
        if let Some(c) = self.text {
            return c;
        }
        let [(directions, _), (second_directions, _)] = self.lines;
        if second_directions != 0 {
            // Two different nets: the vertical line is drawn over the other.
            return '│';
        }
        match directions {
            0 => ' ',
            w if w & (UP | DOWN) == 0 => '─',
            w if w & (LEFT | RIGHT) == 0 => '│',
            w if w == DOWN | RIGHT => '┌',
            w if w == DOWN | LEFT => '┐',
            w if w == UP | RIGHT => '└',
            w if w == UP | LEFT => '┘',
            w if w == UP | DOWN | RIGHT => '├',
            w if w == UP | DOWN | LEFT => '┤',
            w if w == DOWN | LEFT | RIGHT => '┬',
            w if w == UP | LEFT | RIGHT => '┴',
            _ => '┼',
        }
    }
}
