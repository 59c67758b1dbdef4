//! Files in the repository that tests write from the code.

use std::path::Path;

/// Compares a file with its text; writes the text if `DELAYQ_UPDATE` is set.
///
/// `test` has the arguments of `cargo test` that run the calling test.
///
/// # Panics
/// If the file differs.
#[allow(clippy::disallowed_methods, reason = "the variable asks for the file to be written again")]
pub fn compare(path: impl AsRef<Path>, text: &str, test: &str) {
    let path = path.as_ref();
    if std::env::var_os("DELAYQ_UPDATE").is_some() {
        std::fs::write(path, text).expect("the file can be written");
        return;
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(found == text, "{} is behind the code: DELAYQ_UPDATE=1 cargo test {test}", path.display());
}

/// Replaces rows in the tables of a page of Markdown. `rows` gives the rows of a section by title, an empty text before
/// the first title; `None` keeps the page's rows.
pub fn with_rows(page: &str, rows: impl Fn(&str) -> Option<Vec<String>>) -> String {
    let (mut text, mut title, mut is_given) = (String::new(), "", false);
    for line in page.lines() {
        let row = line.starts_with("| `");
        if row && is_given {
            continue;
        }
        text.push_str(line);
        text.push('\n');
        is_given &= row;
        title = line.strip_prefix("## ").unwrap_or(title);
        if line.starts_with("| --- |") {
            let given = rows(title);
            is_given = given.is_some();
            given.into_iter().flatten().for_each(|row| text.push_str(&format!("{row}\n")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_rows_of_a_given_section_are_replaced() {
        let page =
            "# Page\n| a | |\n| --- | --- |\n| `old` | |\n\n## Kept\n\n| b | |\n| --- | --- |\n| `own` | |\n";
        let given = |title: &str| title.is_empty().then(|| vec!["| `new` | |".to_owned()]);
        assert_eq!(with_rows(page, given), page.replace("old", "new"));
        assert_eq!(with_rows(page, |_| None), page);
    }
}
