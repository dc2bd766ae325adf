//! The screen of `nw top`. The terminal is restored on return, on panic and after Ctrl-C.

use super::rates::{Rates, rates};
use super::source::Source;
use super::{SortBy, Top};
use crate::output::describe;
use crate::signals::StopFlag;
use anyhow::Result;
use core::time::Duration;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table};
use ratatui::{DefaultTerminal, Frame};
use std::process::ExitCode;
use std::time::Instant;

/// Interval at which keys and signals are checked.
const SLICE: Duration = Duration::from_millis(100);
/// Terminal width from which prefixes and drops are side by side, columns.
const WIDE: u16 = 100;

/// Draws until the user quits.
pub fn run(
    args: &Top,
    source: &mut Source,
    interval: Duration,
    stop_flag: &StopFlag,
) -> Result<ExitCode> {
    let mut terminal = ratatui::try_init()?;
    let result = Screen::new(args, source, interval)
        .and_then(|mut screen| screen.run(&mut terminal, source, stop_flag));
    // Fails if the terminal is gone, which needs no restoring.
    let _ = ratatui::try_restore();
    result.map(|()| ExitCode::SUCCESS)
}

struct Screen {
    interval: Duration,
    before: (Instant, nw_api::rest::Look),
    shown: Rates,
    note: String,
    sort: SortBy,
    reverse: bool,
    paused: bool,
    /// Index of the first visible face.
    scroll: usize,
}

impl Screen {
    fn new(args: &Top, source: &mut Source, interval: Duration) -> Result<Self> {
        let first = source.snapshot()?;
        let shown = rates(&first, &first, interval);
        Ok(Screen {
            interval,
            before: (Instant::now(), first),
            shown,
            note: source.note().to_owned(),
            sort: args.sort,
            reverse: false,
            paused: false,
            scroll: 0,
        })
    }

    fn run(
        &mut self,
        terminal: &mut DefaultTerminal,
        source: &mut Source,
        stop_flag: &StopFlag,
    ) -> Result<()> {
        loop {
            self.shown.sort_faces(self.sort, self.reverse);
            self.scroll = self.scroll.min(self.shown.faces.len().saturating_sub(1));
            terminal.draw(|frame| self.draw(frame))?;
            let next = self.before.0 + self.interval;
            loop {
                if stop_flag.is_set() {
                    return Ok(());
                }
                let wait = next.saturating_duration_since(Instant::now());
                if event::poll(wait.min(SLICE))? {
                    match self.handle_event(&event::read()?) {
                        EventOutcome::Quit => return Ok(()),
                        EventOutcome::Redraw => break,
                        EventOutcome::Ignored => {}
                    }
                }
                if Instant::now() >= next {
                    self.refresh(source);
                    break;
                }
            }
        }
    }

    fn refresh(&mut self, source: &mut Source) {
        match source.snapshot() {
            Ok(snapshot) => {
                let now = (Instant::now(), snapshot);
                if !self.paused {
                    self.shown = rates(&self.before.1, &now.1, now.0 - self.before.0);
                }
                self.before = now;
                self.note = source.note().to_owned();
            }
            // The error is shown, and the next interval tries again: the router may restart.
            Err(error) => {
                self.note = describe(&error);
                self.before.0 = Instant::now();
            }
        }
    }

    fn handle_event(&mut self, event: &Event) -> EventOutcome {
        let key = match event {
            Event::Key(key) if key.kind == KeyEventKind::Press => key,
            Event::Resize(..) => return EventOutcome::Redraw,
            _ => return EventOutcome::Ignored,
        };
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return EventOutcome::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return EventOutcome::Quit,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('r') => self.reverse = !self.reverse,
            KeyCode::Char(' ') => self.paused = !self.paused,
            KeyCode::Down | KeyCode::Char('j') => self.scroll += 1,
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll += 10,
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => return EventOutcome::Ignored,
        }
        EventOutcome::Redraw
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let bottom = if self.has_bottom() { (area.height.saturating_sub(4)) / 2 } else { 0 };
        // On a small terminal the lower parts are cut off.
        let parts = Layout::vertical([
            Constraint::Length(3),
            Constraint::Fill(1),
            Constraint::Length(bottom),
            Constraint::Length(u16::from(area.height > 4)),
        ]);
        let [head, faces, below, keys] = parts.areas(area);
        let lines: Vec<Line<'_>> = self.shown.head().into_iter().map(Line::from).collect();
        frame.render_widget(Paragraph::new(lines), head);
        let (rows, widths) = face_table(&self.shown.face_rows(), faces.width);
        draw_table(frame, faces, &rows, self.scroll, &widths);
        self.draw_below(frame, below);
        let paused = if self.paused { "paused  " } else { "" };
        let sort = format!("{:?}{}", self.sort, if self.reverse { " reversed" } else { "" })
            .to_lowercase();
        let status_line = match self.note.as_str() {
            "" => format!("{paused}q quit  s sort ({sort})  r reverse  space pause  ↑↓ scroll"),
            note => format!("{paused}{note}"),
        };
        frame.render_widget(
            Paragraph::new(status_line).style(Style::new().add_modifier(Modifier::REVERSED)),
            keys,
        );
    }

    fn has_bottom(&self) -> bool {
        !self.shown.prefixes.is_empty() || !self.shown.drops.is_empty()
    }

    fn draw_below(&self, frame: &mut Frame<'_>, area: Rect) {
        let (prefixes, drops) = (self.shown.prefix_rows(), self.shown.drop_rows());
        let [left, right] = match (self.shown.prefixes.is_empty(), self.shown.drops.is_empty()) {
            (true, _) => return draw_table(frame, area, &drops, 0, &DROP_WIDTHS),
            (_, true) => return draw_table(frame, area, &prefixes, 0, &PREFIX_WIDTHS),
            _ if area.width < WIDE => {
                Layout::vertical([Constraint::Fill(2), Constraint::Fill(1)]).areas(area)
            }
            _ => Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).areas(area),
        };
        draw_table(frame, left, &prefixes, 0, &PREFIX_WIDTHS);
        draw_table(frame, right, &drops, 0, &DROP_WIDTHS);
    }
}

/// What the main loop does after an event.
enum EventOutcome {
    Quit,
    Redraw,
    Ignored,
}

/// Widths of the columns of faces, first to last. The peer (0) takes the remaining width.
const FACE_COLUMNS: [u16; 10] = [6, 0, 7, 7, 7, 7, 8, 8, 8, 8];
/// Columns that a narrow terminal omits, first to last: Nacks, then Data, then Interests.
const FACE_OPTIONAL: [usize; 6] = [8, 4, 7, 3, 6, 2];
/// Minimum width of the peer, characters.
const PEER_MIN: u16 = 14;

/// Returns the columns of the face table that fit, with their widths. The peer takes no more than
/// it needs, so that the figures stay close to it.
fn face_table(rows: &[Vec<String>], width: u16) -> (Vec<Vec<String>>, Vec<Constraint>) {
    let needed = rows.iter().map(|row| row[1].chars().count()).max().unwrap_or(0) as u16;
    let mut columns: Vec<usize> = (0..FACE_COLUMNS.len()).collect();
    let fixed_width =
        |columns: &[usize]| columns.iter().map(|column| FACE_COLUMNS[*column] + 1).sum::<u16>();
    for optional in FACE_OPTIONAL {
        if fixed_width(&columns) + needed.min(PEER_MIN) <= width {
            break;
        }
        columns.retain(|column| *column != optional);
    }
    let peer_width = width.saturating_sub(fixed_width(&columns));
    let widths = columns.iter().map(|column| match column {
        1 => Constraint::Length(needed.min(peer_width)),
        column => Constraint::Length(FACE_COLUMNS[*column]),
    });
    let widths = widths.collect();
    let rows = rows
        .iter()
        .map(|row| columns.iter().map(|column| row[*column].clone()).collect())
        .collect();
    (rows, widths)
}

const PREFIX_WIDTHS: [Constraint; 4] =
    [Constraint::Length(7), Constraint::Length(7), Constraint::Length(7), Constraint::Fill(1)];
const DROP_WIDTHS: [Constraint; 3] =
    [Constraint::Length(10), Constraint::Length(10), Constraint::Fill(1)];

fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    rows: &[Vec<String>],
    skip: usize,
    widths: &[Constraint],
) {
    let Some((head, rows)) = rows.split_first() else { return };
    // Rows beyond the area are not laid out.
    let rows =
        rows.iter().skip(skip).take(usize::from(area.height)).map(|cells| Row::new(cells.clone()));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let table = Table::new(rows, widths.to_vec())
        .header(Row::new(head.clone()).style(bold))
        .column_spacing(1);
    frame.render_widget(table, area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::top::rates::{DropRate, FaceRates, PrefixRates};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn screen() -> Screen {
        let faces = (0..50).map(|n| FaceRates {
            face_id: 256 + n,
            uri: format!("udp4://192.0.2.1:{n}"),
            in_bytes: n as f64,
            ..FaceRates::default()
        });
        let shown = Rates {
            version: "namewire".into(),
            faces: faces.collect(),
            prefixes: vec![PrefixRates {
                prefix: "/video/a".into(),
                bytes: 5.0,
                ..PrefixRates::default()
            }],
            drops: vec![DropRate { reason: "no_route".into(), packets: 1.0, total: 2 }],
            ..Rates::default()
        };
        Screen {
            interval: Duration::from_secs(1),
            before: (Instant::now(), nw_api::rest::Look::default()),
            shown,
            note: String::new(),
            sort: SortBy::Traffic,
            reverse: false,
            paused: false,
            scroll: 0,
        }
    }

    #[test]
    fn face_table_keeps_peer_and_bytes_on_narrow_terminals() {
        let rows = screen().shown.face_rows();
        let head = |width| face_table(&rows, width).0[0].join(" ");
        assert_eq!(head(40), "face peer in B/s out B/s");
        assert!(head(80).starts_with("face peer in I/s in D/s in B/s"), "{}", head(80));
        assert_eq!(
            face_table(&rows, 200).1[1],
            Constraint::Length(19),
            "no wider than the longest peer"
        );
    }

    fn drawn(screen: &Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn screen_draws_on_any_terminal_size() {
        let mut screen = screen();
        let wide = drawn(&screen, 140, 40);
        for word in ["namewire", "udp4://192.0.2.1:0", "/video/a", "no_route", "q quit"] {
            assert!(wide.contains(word), "{word} is missing in\n{wide}");
        }
        assert!(drawn(&screen, 60, 24).contains("/video/a"));
        // Sizes too small for content must not panic.
        for (width, height) in [(1, 1), (2, 3), (10, 5), (300, 2), (5, 100)] {
            drawn(&screen, width, height);
        }
        screen.scroll = 45;
        assert!(drawn(&screen, 140, 40).contains("192.0.2.1:45"));
    }

    #[test]
    fn keys_change_sort_order_and_quit() {
        let mut screen = screen();
        let mut press = |code, modifiers| {
            screen.handle_event(&Event::Key(event::KeyEvent::new(code, modifiers)))
        };
        assert!(matches!(press(KeyCode::Char('s'), KeyModifiers::NONE), EventOutcome::Redraw));
        assert!(matches!(press(KeyCode::Char('x'), KeyModifiers::NONE), EventOutcome::Ignored));
        assert!(matches!(press(KeyCode::Up, KeyModifiers::NONE), EventOutcome::Redraw));
        assert!(matches!(press(KeyCode::Char('q'), KeyModifiers::NONE), EventOutcome::Quit));
        assert!(matches!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), EventOutcome::Quit));
        assert_eq!(screen.sort, SortBy::In);
    }
}
