//! `delayq top`: a live screen of shards, topics, processes and destinations.

use crate::deployment::Context;
use crate::failure::{PARTIAL, file, usage};
use crate::output::{Judgement, Output};
use clap::Args;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, read};
use crossterm::style::{Color, Print, ResetColor, SetForegroundColor};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};
use delayq_service::Fault;
use delayq_service::config::{HostPort, HumanDuration};
use frame::{Frame, Page};
use futures_util::future::select_all;
use rustix::io::Errno;
use sample::Sample;
use screen::{Key, Screen, Shown};
use std::io::{IsTerminal as _, Write as _};
use std::panic::{set_hook, take_hook};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::sleep;

mod frame;
mod sample;
mod screen;

/// The shortest time between two looks.
const SHORTEST: Duration = Duration::from_millis(500);

/// The longest time between two drawings. A drawing is how a terminal that is gone is noticed, while the screen is paused too;
/// the thread that reads keys never notices.
const REDRAWN: Duration = Duration::from_secs(1);

/// Watch shards, topics, processes and destinations live
///
/// Four pages: shards with owner, messages and overdue time; topics with counts and rates; processes with shards, rates and
/// lateness, from all admin endpoints that are registered in etcd, configured, or given with --admin; and forwarders'
/// destinations with their circuits. Keys: 1 to 4 or tab select the page, s sorts by the next column, r reverses the order,
/// / filters, arrows scroll, p pauses, q quits.
///
/// Each refresh costs Redis three short scripts per shard, and one per shard for each of the first 100 topics.
#[derive(Debug, Args)]
pub struct Top {
    /// The admin endpoint of a process that is not registered in etcd; may be repeated
    #[arg(long = "admin", value_name = "HOST:PORT")]
    endpoints: Vec<HostPort>,
    /// The time between two refreshes, at least 500ms
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    interval: HumanDuration,
    /// Print every page once, after two refreshes, and end; --json implies this
    #[arg(long)]
    once: bool,
}

/// The terminal while the screen is shown; restored on drop.
struct Terminal {
    has_colour: bool,
    /// Set once a panicking thread has left the screen to report the panic.
    has_panicked: Arc<AtomicBool>,
}

// === impl Top ===

impl Top {
    /// Shows the screen until the user quits, or prints a single frame.
    ///
    /// # Errors
    /// There is no terminal and no `--once`; or standard output cannot be written.
    pub async fn run(self, context: &Context) -> Result<(), Fault> {
        if *self.interval < SHORTEST {
            return Err(usage(format!("--interval {} is too short: at least 500ms", self.interval)));
        }
        if self.once || context.output.json {
            return self.print_once(context).await;
        }
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return Err(usage("no terminal: print one frame with --once, or use --json"));
        }
        match self.watch(context).await {
            // The terminal is gone, so nobody can read an error.
            Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(()),
            watched => watched.map_err(|error| file("the terminal".as_ref(), "use", error)),
        }
    }

    async fn print_once(&self, context: &Context) -> Result<(), Fault> {
        let before = Sample::take(context, &self.endpoints).await;
        sleep(*self.interval).await;
        let sample = Sample::take(context, &self.endpoints).await;
        let frame = Frame::between(Some(&before), &sample);
        context.output.print(&frame, || text(context.output, &frame))?;
        match sample.missing().as_slice() {
            [] => Ok(()),
            missing => Err(Fault::new(&PARTIAL, format!("not seen: {}", missing.join("; ")))),
        }
    }

    async fn watch(&self, context: &Context) -> std::io::Result<()> {
        let mut asked_to_end = pin!(asked_to_end()?);
        let terminal = Terminal::enter(context.output.lively)?;
        let mut events = events();
        let (mut screen, mut frame) = (Screen::default(), Frame::default());
        let mut last: Option<Sample> = None;
        let take = async |pause: Duration| {
            sleep(pause).await;
            Sample::take(context, &self.endpoints).await
        };
        let mut next = Box::pin(take(Duration::ZERO));
        loop {
            terminal.draw(&mut screen, &frame)?;
            tokio::select! {
                () = &mut asked_to_end => return Ok(()),
                () = sleep(REDRAWN) => {}
                event = events.recv() => match event {
                    None => return Ok(()),
                    Some(event) => if key(&event).is_some_and(|key| screen.press(key)) {
                        return Ok(());
                    },
                },
                sample = &mut next, if !screen.is_paused => {
                    frame = Frame::between(last.as_ref(), &sample);
                    last = Some(sample);
                    next = Box::pin(take(*self.interval));
                }
            }
        }
    }
}

// === impl Terminal ===

impl Terminal {
    fn enter(has_colour: bool) -> std::io::Result<Self> {
        enable_raw_mode()?;
        let has_panicked = Arc::new(AtomicBool::new(false));
        let (terminal, panicked) =
            (Self { has_colour, has_panicked: Arc::clone(&has_panicked) }, has_panicked);
        execute!(std::io::stdout(), EnterAlternateScreen, Hide)?;
        // The message of a panic would vanish with the screen.
        let report = take_hook();
        set_hook(Box::new(move |panic| {
            panicked.store(true, Ordering::Relaxed);
            leave();
            report(panic);
        }));
        Ok(terminal)
    }

    /// Draws over the shown lines, in a single write so that nothing flickers.
    fn draw(&self, screen: &mut Screen, frame: &Frame) -> std::io::Result<()> {
        if self.has_panicked.load(Ordering::Relaxed) {
            return Err(std::io::Error::other("a part of the program has panicked"));
        }
        let (width, height) = known(size()?);
        let bytes = drawn(screen.lines(frame, width.into(), height.into()), self.has_colour)?;
        let mut out = std::io::stdout().lock();
        out.write_all(&bytes)?;
        out.flush()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave();
    }
}

/// Replaces an unknown size: a terminal without a size, as in a container, reports 0.
fn known((width, height): (u16, u16)) -> (u16, u16) {
    let or = |size, usual| if size == 0 { usual } else { size };
    (or(width, 80), or(height, 24))
}

/// The bytes that draw these lines from the top.
fn drawn(lines: Vec<Shown>, has_colour: bool) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (row, (judgement, line)) in (0..).zip(lines) {
        // Clears before printing: behind a line as wide as the terminal the cursor still stands on the last cell, and
        // clearing there would erase that cell.
        queue!(bytes, MoveTo(0, row), Clear(ClearType::CurrentLine))?;
        if let Some(judgement) = judgement.filter(|_| has_colour) {
            queue!(bytes, SetForegroundColor(colour(judgement)))?;
        }
        queue!(bytes, Print(line), ResetColor)?;
    }
    Ok(bytes)
}

/// Restores the terminal. Idempotent.
fn leave() {
    // A terminal that is gone needs no restoring.
    let _ = execute!(std::io::stdout(), Show, LeaveAlternateScreen);
    let _ = disable_raw_mode();
}

/// Completes at the first signal that asks the program to end.
fn asked_to_end() -> std::io::Result<impl Future<Output = ()>> {
    use SignalKind as Kind;
    let kinds = [Kind::interrupt(), Kind::hangup(), Kind::quit(), Kind::terminate()];
    let signals: std::io::Result<Vec<Signal>> = kinds.into_iter().map(signal).collect();
    let mut signals = signals?;
    Ok(async move {
        select_all(signals.iter_mut().map(|signal| Box::pin(signal.recv()))).await;
    })
}

const fn colour(judgement: Judgement) -> Color {
    match judgement {
        Judgement::Good => Color::Green,
        Judgement::Warning => Color::Yellow,
        Judgement::Bad => Color::Red,
    }
}

/// Events of the terminal, read on a separate thread that ends with the process.
fn events() -> mpsc::Receiver<Event> {
    let (sender, events) = mpsc::channel(16);
    std::thread::spawn(move || {
        while let Ok(event) = read() {
            if sender.blocking_send(event).is_err() {
                return;
            }
        }
    });
    events
}

/// The key of an event, if the key has a meaning.
fn key(event: &Event) -> Option<Key> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press, .. }) = event else { return None };
    Some(match code {
        KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => Key::Interrupt,
        KeyCode::Char(letter) => Key::Letter(*letter),
        KeyCode::Tab | KeyCode::Right => Key::Next,
        KeyCode::BackTab | KeyCode::Left => Key::Previous,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Enter => Key::Enter,
        KeyCode::Backspace => Key::Erase,
        KeyCode::Esc => Key::Escape,
        _ => return None,
    })
}

/// All pages, from top to bottom.
fn text(output: Output, frame: &Frame) -> String {
    let mut text: String = frame.unseen.iter().map(|why| format!("not seen: {why}\n")).collect();
    for page in Page::ALL {
        let table = frame.table(page);
        let mut rows = output.rows(&table.columns);
        for (judgement, cells) in table.lines {
            match judgement {
                Some(judgement) => rows.judged(judgement, cells),
                None => rows.row(cells),
            }
        }
        text.push_str(&format!("# {}\n{}\n\n", page.name(), rows.text()));
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_as_wide_as_the_terminal_is_not_cleared_behind_its_end() {
        let lines = vec![(None, "x".repeat(80)), (Some(Judgement::Bad), "bad".to_owned())];
        let text = String::from_utf8(drawn(lines, true).unwrap()).unwrap();
        let clear = "\u{1b}[2K";
        for (line, words) in text.split(clear).skip(1).zip(["x", "bad"]) {
            assert!(line.contains(words) && !line.contains("\u{1b}[K"), "{text:?}");
        }
        assert_eq!(text.matches(clear).count(), 2, "{text:?}");
    }
}
