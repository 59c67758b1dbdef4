//! A back-off as people write it: `10s`, `1s..10m`, `1s,5s,1m`.

use super::duration::HumanDuration;
use delayq::Backoff;
use std::time::Duration;

/// A back-off in the form that [`backoff`] reads.
#[must_use]
pub fn backoff_text(backoff: &Backoff) -> String {
    match backoff {
        Backoff::Fixed(delay) => exact(*delay),
        Backoff::Exponential { first, longest } => format!("{}..{}", exact(*first), exact(*longest)),
        Backoff::List(delays) => delays.iter().map(|&delay| exact(delay)).collect::<Vec<_>>().join(","),
    }
}

/// Reads a back-off: 10s (fixed), 1s..10m (exponential), 1s,5s,1m (a list).
///
/// # Errors
/// A sentence with the accepted forms.
pub fn backoff(text: &str) -> Result<Backoff, String> {
    let span = |text: &str| text.trim().parse::<HumanDuration>().map(Duration::from);
    let short = |delay: &Duration| (1..=u128::from(u32::MAX)).contains(&delay.as_millis());
    let (backoff, delays) = if let Some((first, longest)) = text.split_once("..") {
        let (first, longest) = (span(first)?, span(longest)?);
        if first > longest {
            return Err("the first delay is longer than the maximum".to_owned());
        }
        (Backoff::Exponential { first, longest }, vec![first, longest])
    } else {
        let delays = text.split(',').map(span).collect::<Result<Vec<_>, _>>()?;
        match delays.as_slice() {
            [delay] => (Backoff::Fixed(*delay), delays),
            _ => (Backoff::List(delays.clone()), delays),
        }
    };
    if delays.len() > 32 || !delays.iter().all(short) {
        return Err("a delay is 1ms to 49 days, and a list has at most 32 delays".to_owned());
    }
    Ok(backoff)
}

/// In the form that can be read again.
fn exact(length: Duration) -> String {
    HumanDuration::from(length).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_back_off_is_fixed_exponential_or_a_list() {
        let s = Duration::from_secs;
        assert_eq!(backoff("10s"), Ok(Backoff::Fixed(s(10))));
        assert_eq!(backoff("1s..10m"), Ok(Backoff::Exponential { first: s(1), longest: s(600) }));
        assert_eq!(backoff("1s, 5s,1m"), Ok(Backoff::List(vec![s(1), s(5), s(60)])));
        for bad in ["", "0s", "10m..1s", "5", "60days", "1s..", &["1s"; 33].join(",")] {
            assert!(backoff(bad).is_err(), "{bad}");
        }
    }
}
