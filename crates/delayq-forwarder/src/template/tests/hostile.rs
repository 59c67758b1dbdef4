//! Every text in a route is accepted or refused; every value of a message is rendered or reported as missing.

use crate::parcel::About;
use crate::pattern::Pattern;
use crate::template::Template;
use delayq::UnixMillis;
use delayq::protocol::UnixMicros;
use delayq_tests::mutation;

delayq_tests::try_with_mutations! {
    #[test]
    fn a_mutated_template_or_pattern_is_taken_or_refused() { routes_answer(20_000, 1_500_000) }
}

const TEMPLATES: [&str; 4] = ["{topic}.{header.region}/{id}", "{{{due}}}-{attempt}", "orders", "{group}"];
const PATTERNS: [&str; 4] = ["orders.*", "**/a?c", "orders", "*"];
const PIECES: [&str; 12] =
    ["{", "}", "{{", "}}", "{topic}", "{header.", "*", "**", "?", "/", "\u{0}", "\u{1f4a5}"];

fn routes_answer(cases: u64) {
    let mut rng = fastrand::Rng::with_seed(8);
    let mut rendered = 0;
    for case in 0..cases {
        let (id, topic) =
            (mutation::text(&mut rng, "order-17", &PIECES), mutation::text(&mut rng, "a/b", &PIECES));
        let seed = rng.choice(TEMPLATES).unwrap();
        let text = mutation::text(&mut rng, seed, &PIECES);
        if let Ok(template) = text.parse::<Template>() {
            assert_eq!(template.to_string().parse(), Ok(template.clone()), "case {case}: {text:?}");
            let about = About {
                id,
                topic: topic.clone(),
                group: None,
                due: UnixMillis::new(rng.u64(..)),
                ready: UnixMicros(0),
                attempt: 1,
                delivery: 1,
                identity: String::new(),
            };
            let headers = [("Region".to_owned(), "eu".to_owned())];
            let filled = template.of_topic(&topic).render(&about, &headers);
            assert_eq!(template.render(&about, &headers), filled, "case {case}: {text:?}");
            rendered += u64::from(filled.is_ok());
        }
        let seed = rng.choice(PATTERNS).unwrap();
        let text = mutation::text(&mut rng, seed, &PIECES);
        if let Ok(pattern) = text.parse::<Pattern>() {
            assert!(pattern.covers(&pattern), "case {case}: {text:?}");
            let _ = pattern.matches(&topic);
        }
    }
    assert!(rendered > cases / 100, "nearly no template was rendered");
}
