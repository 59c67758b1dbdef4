use super::*;
use jiff::Zoned;

/// A Friday.
fn here() -> Here {
    Here::from("2026-11-20T12:00:00[Europe/Berlin]".parse::<Zoned>().unwrap())
}

fn read(text: &str) -> Result<When, String> {
    When::parse(text, &here())
}

/// Moments with an absolute meaning, each with its time.
const MOMENTS: [(&str, &str); 22] = [
    ("1800000000000", "2027-01-15T08:00:00Z"),
    ("978307200000", "2001-01-01T00:00:00Z"),
    ("253402300799999", "253402300799999 ms"),
    ("2026-12-24T18:00:00+01:00", "2026-12-24T17:00:00Z"),
    ("2026-12-24t18:00:00z", "2026-12-24T18:00:00Z"),
    ("2026-12-24 18:00:00Z", "2026-12-24T18:00:00Z"),
    ("2026-12-24 18:00:00+01", "2026-12-24T17:00:00Z"),
    ("2026-12-24 18:00:00 +0100", "2026-12-24T17:00:00Z"),
    ("2026-12-24T18:00:00.125-00:00", "2026-12-24T18:00:00.125Z"),
    ("2026-12-24T18:00Z", "2026-12-24T18:00:00Z"),
    ("2026-12-24T18:00:00[Europe/Berlin]", "2026-12-24T17:00:00Z"),
    ("2026-12-24T18:00:00 Europe/Berlin", "2026-12-24T17:00:00Z"),
    ("2026-12-24T18:00:00+01:00[Europe/Berlin]", "2026-12-24T17:00:00Z"),
    ("2026-12-24T18:00:00Z[UTC]", "2026-12-24T18:00:00Z"),
    ("2027-06-01T09:00:00.5 Asia/Tokyo", "2027-06-01T00:00:00.500Z"),
    ("2027-03-28 12:00 Europe/Berlin", "2027-03-28T10:00:00Z"),
    ("2027-10-31T02:30:00+02:00[Europe/Berlin]", "2027-10-31T00:30:00Z"),
    ("2027-10-31T02:30:00+01:00[Europe/Berlin]", "2027-10-31T01:30:00Z"),
    ("1970-01-21T20:00:00Z", "1970-01-21T20:00:00Z"),
    ("9999-12-30T22:00:00Z", "9999-12-30T22:00:00Z"),
    ("2026-12-24T18:00:00.000000001Z", "2026-12-24T18:00:00.001Z"),
    ("2026-12-24T8:00Z", "2026-12-24T08:00:00Z"),
];

/// Forms for the command line and its files only, read on 2026-11-20 at 12:00 in Berlin.
const FROM_HERE: [(&str, &str); 17] = [
    ("2027-06-01T09:00:00", "2027-06-01T07:00:00Z"),
    ("2027-06-01T09:00", "2027-06-01T07:00:00Z"),
    ("2027-06-01 09:00:00", "2027-06-01T07:00:00Z"),
    ("2027-06-01 09:00", "2027-06-01T07:00:00Z"),
    ("2027-06-01T09:00:00.250", "2027-06-01T07:00:00.250Z"),
    ("tomorrow 09:00 Europe/Berlin", "2026-11-21T08:00:00Z"),
    ("tomorrow 09:00", "2026-11-21T08:00:00Z"),
    ("tomorrow 9:00", "2026-11-21T08:00:00Z"),
    ("today 09:00 UTC", "2026-11-20T09:00:00Z"),
    ("tomorrow 00:30 Asia/Tokyo", "2026-11-20T15:30:00Z"),
    ("tomorrow 09:00+02:00", "2026-11-21T07:00:00Z"),
    ("09:00", "2026-11-21T08:00:00Z"),
    ("13:30:15", "2026-11-20T12:30:15Z"),
    ("13:30[Europe/London]", "2026-11-20T13:30:00Z"),
    ("friday 09:00", "2026-11-27T08:00:00Z"),
    ("Fri 13:00", "2026-11-20T12:00:00Z"),
    ("monday 08:00 America/New_York", "2026-11-23T13:00:00Z"),
];

/// Texts refused everywhere, each with a part of the reason.
const REFUSED: [(&str, &str); 39] = [
    ("", "the time of day is missing"),
    ("NaN", "\"NaN\" is not a day"),
    ("soon", "\"soon\" is not a day"),
    ("tomorrow", "the time of day is missing"),
    ("2027-06-01", "the time of day is missing"),
    ("2027-06-01T", "the time of day is missing"),
    ("2027-02-30 09:00", "no such day: 2027-02-30"),
    ("27-06-01 09:00", "\"27-06-01\" is not a day"),
    ("2027-6-1 09:00", "\"2027-6-1\" is not a day"),
    ("20270601T090000Z", "is not a day"),
    ("tomorrow 9", "\"9\" is not a time of day"),
    ("tomorrow 0900", "\"0900\" is not a time of day"),
    ("25:00", "\"25:00\" is not a time of day"),
    ("24:00", "\"24:00\" is not a time of day"),
    ("09:5", "\"09:5\" is not a time of day"),
    ("009:00", "\"009:00\" is not a time of day"),
    ("23:59:60", "\"23:59:60\" is not a time of day"),
    ("09:00.5", "\"09:00.5\" is not a time of day"),
    ("09:00:00,5", "\"09:00:00,5\" is not a time of day"),
    ("09:00:00.", "\"09:00:00.\" is not a time of day"),
    ("09:00 am", "unknown time zone \"am\""),
    ("09:00 Europe/Atlantis", "unknown time zone \"Europe/Atlantis\""),
    ("2027-06-01T09:00[Europe/Atlantis]", "unknown time zone \"Europe/Atlantis\""),
    ("09:00 [Europe/Berlin", "unknown time zone \"[Europe/Berlin\""),
    ("09:00 Europe/Berlin Europe/Berlin", "unexpected \"Europe/Berlin\""),
    ("09:00Z Z Z", "unknown time zone"),
    ("2027-06-01T09:00:00+99:00", "\"+99:00\" is not an offset"),
    ("2027-06-01T09:00:00Zulu", "\"Zulu\" is not an offset"),
    ("2027-06-01T09:00:00 2027-06-01T09:00:00", "unknown time zone"),
    ("1e5", "is not a day"),
    ("0x10", "is not a day"),
    ("1.5", "is not a day"),
    ("-1h", "is not a day"),
    ("0", "not between 1 and 9007199254740991 ms"),
    ("-5", "not between 1 and 9007199254740991 ms"),
    ("9007199254740992", "not between 1 and 9007199254740991 ms"),
    ("99999999999999999999999", "not between 1 and 9007199254740991 ms"),
    ("1969-12-31T23:59:59Z", "not after 1970-01-01T00:00:00Z"),
    ("9999-12-31T23:59:59Z", "out of range: the latest time in this form is 9999-12-30T22:00:00Z"),
];

#[test]
fn a_local_date_and_time_keeps_its_date() {
    for (text, expected) in MOMENTS.iter().chain(&FROM_HERE) {
        let Due::At(at) = read(text).unwrap().due(false).unwrap() else { panic!("{text} is a delay") };
        let expected = expected.parse().map_or((*expected).to_owned(), |at: Timestamp| format!("{at:.3}"));
        assert_eq!(time(at), expected, "{text}");
    }
}

#[test]
fn a_delay_counts_from_redis_clock() {
    for (text, seconds) in [("now", 0), ("+90s", 90), ("+2h30m", 9000), ("+ 1m 5s", 65)] {
        assert_eq!(read(text), Ok(When::sure(Due::After(Duration::from_secs(seconds)))), "{text}");
    }
    for text in ["+", "+30", "+-1s", "+30M", "++1s", "+1h tomorrow", "+002027-06-01T09:00:00Z"] {
        let fault = read(text).unwrap_err();
        assert!(fault.contains("write") || fault.contains("expected a duration"), "{text}: {fault}");
    }
}

#[test]
fn what_is_no_time_is_refused_with_its_reason() {
    for (text, part) in REFUSED {
        for refusal in [read(text).unwrap_err(), moment(text).unwrap_err()] {
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }
}

#[test]
fn a_record_is_not_read_by_the_clock_of_its_reader() {
    for (text, expected) in MOMENTS {
        let expected = expected.parse().map_or(expected.to_owned(), |at: Timestamp| format!("{at:.3}"));
        assert_eq!(moment(text).map(time), Ok(expected), "{text}");
    }
    for text in FROM_HERE.map(|(text, _)| text).iter().chain(&["now", "+90s", "1.8e12", " 1800000000000"]) {
        let refusal = moment(text).unwrap_err();
        assert!(refusal.contains("expected milliseconds since the epoch, or RFC 3339"), "{text}: {refusal}");
    }
}

#[test]
fn a_request_is_not_read_by_the_clock_of_its_server() {
    for (text, _) in MOMENTS {
        assert_eq!(When::anywhere(text), read(text), "{text}");
    }
    for text in ["now", "+90s", "+ 1m 5s", "1800000000"] {
        assert_eq!(When::anywhere(text), read(text), "{text}");
    }
    for (text, _) in FROM_HERE {
        let refusal = When::anywhere(text).unwrap_err();
        assert!(refusal.contains("write RFC 3339"), "{text}: {refusal}");
    }
}

#[test]
fn a_bare_number_of_seconds_or_microseconds_is_not_taken_for_milliseconds() {
    for (text, part) in [
        ("1800000000", "if seconds were meant, write 1800000000000 (2027-01-15T08:00:00.000Z)"),
        (
            "1800000000000000",
            "1800000000000000 ms since the epoch is after the year 9999; if microseconds were meant, write 1800000000000 (2027-01-15T08:00:00.000Z)",
        ),
        ("1800", "is 1970-01-01T00:00:01.800Z; for a delay, write +30m"),
        ("253402300800000", "after the year 9999"),
    ] {
        let doubtful = read(text).unwrap();
        for refusal in [
            doubtful.due(false).unwrap_err(),
            doubtful.at(UnixMillis::new(0)).unwrap_err(),
            moment(text).unwrap_err(),
        ] {
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
        assert_eq!(doubtful.due(true), Ok(Due::At(UnixMillis::new(text.parse().unwrap()))));
    }
}

#[test]
fn a_wall_clock_that_is_skipped_or_comes_twice_is_refused_in_every_form() {
    let skipped = "write 2027-03-28T02:30:00+01:00 or 2027-03-28T02:30:00+02:00";
    let twice = "2027-10-31T02:30:00+02:00 for the first, 2027-10-31T02:30:00+01:00 for the second";
    for (date, part) in [("2027-03-28", skipped), ("2027-10-31", twice)] {
        for form in [
            "T02:30:00[Europe/Berlin]",
            "T02:30[Europe/Berlin]",
            " 02:30 Europe/Berlin",
            " 2:30:00 [Europe/Berlin]",
        ] {
            let text = format!("{date}{form}");
            for refusal in [read(&text).unwrap_err(), moment(&text).unwrap_err()] {
                assert!(refusal.contains(part), "{text}: {refusal}");
            }
        }
        for form in ["T02:30:00", " 02:30"] {
            let refusal = read(&format!("{date}{form}")).unwrap_err();
            assert!(refusal.contains(part) && refusal.contains("Europe/Berlin"), "{form}: {refusal}");
        }
    }
}

#[test]
fn an_offset_that_contradicts_its_zone_is_refused() {
    for text in [
        "2027-06-01T09:00:00+01:00[Europe/Berlin]",
        "2027-06-01T09:00:00Z[Europe/Berlin]",
        "2027-06-01 09:00+05:00 Europe/Berlin",
        "2027-03-28T02:30:00+01:00[Europe/Berlin]",
    ] {
        for refusal in [read(text).unwrap_err(), moment(text).unwrap_err()] {
            assert!(refusal.contains("contradicts the zone Europe/Berlin"), "{text}: {refusal}");
        }
    }
}
