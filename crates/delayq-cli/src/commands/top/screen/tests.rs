use super::super::frame::ProcessRow;
use super::*;

fn frame() -> Frame {
    let row = |name: &str, moved: f64, state: &str| {
        let mut row = ProcessRow::silent(name, "");
        (row.state, row.moved_per_s) = (state.to_owned(), Some(moved));
        row
    };
    Frame {
        processes: vec![
            row("timer-b", 9.0, "ready"),
            row("timer-a", 10.0, "SILENT: \u{1b}[2J"),
            row("fwd", 100.0, "ready"),
        ],
        unseen: vec!["topics: gone".to_owned()],
        ..Frame::default()
    }
}

fn pressed(keys: &[Key]) -> Screen {
    let mut screen = Screen::default();
    for key in keys {
        assert!(!screen.press(*key), "{key:?} ends");
    }
    screen
}

/// The first words of the rows.
fn rows(screen: &mut Screen) -> Vec<String> {
    let lines = screen.lines(&frame(), 80, 24);
    let rows = lines.iter().skip(4).map(|(_, line)| line.split(' ').next().unwrap().to_owned());
    rows.take_while(|word| !word.is_empty()).collect()
}

#[test]
fn keys_turn_pages_sort_filter_pause_and_quit() {
    let processes = Key::Letter('3');
    assert_eq!(rows(&mut pressed(&[processes])), ["timer-b", "timer-a", "fwd"]);
    assert_eq!(rows(&mut pressed(&[Key::Next, Key::Next])), ["timer-b", "timer-a", "fwd"]);
    assert_eq!(rows(&mut pressed(&[Key::Previous, Key::Previous])), ["timer-b", "timer-a", "fwd"]);
    let sort = Key::Letter('s');
    assert_eq!(rows(&mut pressed(&[processes, sort])), ["fwd", "timer-a", "timer-b"]);
    let by_rate = [processes, sort, sort, sort, sort];
    assert_eq!(rows(&mut pressed(&by_rate)), ["timer-b", "timer-a", "fwd"], "9 is less than 10");
    assert_eq!(
        rows(&mut pressed(&[&by_rate[..], &[Key::Letter('r')]].concat())),
        ["fwd", "timer-a", "timer-b"]
    );
    let mut reversed = pressed(&[processes, Key::Letter('r')]);
    assert_eq!(rows(&mut reversed), ["fwd", "timer-a", "timer-b"], "as they come, the last first");
    assert!(reversed.lines(&frame(), 80, 24)[0].1.ends_with("3 rows, reversed"));
    let filter = [
        processes,
        Key::Letter('/'),
        Key::Letter('q'),
        Key::Erase,
        Key::Letter('f'),
        Key::Letter('w'),
        Key::Enter,
    ];
    assert_eq!(rows(&mut pressed(&filter)), ["fwd"]);
    assert!(
        pressed(&[Key::Letter('p')]).is_paused && !pressed(&[Key::Letter('p'), Key::Letter('p')]).is_paused
    );
    for quit in [Key::Letter('q'), Key::Escape, Key::Interrupt] {
        assert!(Screen::default().press(quit), "{quit:?}");
    }
}

#[test]
fn every_line_fits_the_terminal_and_none_commands_it() {
    let mut screen = pressed(&[Key::Letter('3')]);
    for (width, height) in [(80, 24), (40, 5), (20, 3), (200, 50)] {
        let lines = screen.lines(&frame(), width, height);
        assert_eq!(lines.len(), height.max(4).min(lines.len()), "{width}x{height}");
        for (_, line) in &lines {
            assert!(line.width() <= width && !line.contains('\u{1b}'), "{width}: {line:?}");
        }
    }
    let lines = screen.lines(&frame(), 80, 24);
    assert!(lines[0].1.contains("[processes]") && lines[2].1 == "topics: gone", "{lines:?}");
    assert!(
        lines.iter().any(|(judgement, line)| *judgement == Some(Judgement::Bad) && line.contains("SILENT"))
    );
    assert!(lines[23].1.contains("q quit"));
}

#[test]
fn scrolling_ends_with_the_rows() {
    let mut screen = pressed(&[Key::Letter('3'), Key::Down, Key::Down, Key::Down, Key::Down]);
    // A single row has room: title, blank, unseen part, header, row, help.
    let lines = screen.lines(&frame(), 80, 6);
    assert!(lines[4].1.starts_with("fwd"), "{lines:?}");
}

#[test]
fn a_chinese_letter_takes_two_columns() {
    let mut frame = frame();
    let mut row = ProcessRow::silent("订单通知服务", "");
    row.state = "ready".to_owned();
    frame.processes.push(row);
    let mut screen = pressed(&[Key::Letter('3')]);
    for width in [200, 80, 40, 21, 20, 19] {
        let lines = screen.lines(&frame, width, 24);
        assert!(lines.iter().all(|(_, line)| line.width() <= width), "{width}: {lines:?}");
    }
    let lines = screen.lines(&frame, 200, 24);
    let state = |row: usize, word: &str| lines[row].1.split_once(word).unwrap().0.width();
    assert_eq!(state(4, "ready"), state(7, "ready"), "{lines:?}");
    for (width, shown) in [(4, "订单"), (3, "订…"), (2, "…")] {
        assert_eq!(cut("订单", width), shown);
    }
}
