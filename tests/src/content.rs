//! Payloads of any content.

/// Payloads with quoting hazards for shells, SQL, templates and lines; the last payload is long.
#[must_use]
pub fn texts() -> [String; 6] {
    let texts =
        [r"C:\temp\n", r#"it's "quoted" $HOME `id`"#, "two\nlines\ttab\n", "\0 and \u{1}", "%s é \u{10348}"];
    let [a, b, c, d, e] = texts.map(str::to_owned);
    [a, b, c, d, e, "é\\\"\n".repeat(40_000)]
}
