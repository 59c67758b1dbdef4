//! The pictures of the documents equal the output of `docs-figures`.

use delayq_tests::binary::Binary;
use delayq_tests::deadline::SHORT;
use delayq_tests::folder::Folder;
use std::path::Path;

#[tokio::test]
async fn the_pictures_of_the_documents_are_drawn_from_the_scripts_and_the_data() {
    let folder = Folder::new("pictures");
    let drawn = Binary::new("docs-figures").arg(folder.path()).run(b"", SHORT).await;
    assert_eq!(drawn.code, Some(0), "{drawn:?}");
    let shown = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/figures");
    for entry in std::fs::read_dir(folder.path()).unwrap() {
        let name = entry.unwrap().file_name();
        let [drawn, shown] =
            [folder.path(), &shown].map(|folder| std::fs::read_to_string(folder.join(&name)));
        assert!(
            drawn.unwrap() == shown.unwrap_or_default(),
            "{} is behind: make docs-figures",
            name.display()
        );
    }
}
