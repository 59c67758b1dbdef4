//! The share of a gateway in a quota, by the demand of the last second.
//!
//! Gateways that have seen the same beats deal out the quota exactly. A gateway without demand keeps a small share for the first puts:
//! all of these together take less than a tenth, so the rest serves the load wherever it arrives. While the load moves from one gateway
//! to another, both may have a large share: for up to two seconds, up to twice the quota.

/// Shares without demand, together, as a part of the quota.
const IDLE_PART: f64 = 0.1;

pub(super) fn share(quota: f64, own: u64, others: &[u64]) -> f64 {
    let idle = quota * IDLE_PART / (others.len() + 1) as f64;
    let weight = |demand: u64| (demand as f64).clamp(idle, quota);
    let all: f64 = others.iter().copied().map(weight).sum::<f64>() + weight(own);
    // A quota of 0 has no share.
    quota * weight(own) / all.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_gateways_are_the_quota_and_follow_the_load() {
        for demands in [&[0][..], &[0, 0, 0], &[5000, 0], &[900, 100, 0], &[7, 7, 7, 7], &[1, 2, 4000]] {
            let of = |at: usize| {
                let others: Vec<u64> = [&demands[..at], &demands[at + 1..]].concat();
                share(1000.0, demands[at], &others)
            };
            let all: f64 = (0..demands.len()).map(of).sum();
            assert!((all - 1000.0).abs() < 0.001, "{demands:?}: {all}");
        }
        assert_eq!(share(0.0, 5, &[5]).to_bits(), 0.0_f64.to_bits());
        assert!(share(1000.0, 1000, &[0; 20]) > 909.0);
        assert!((share(1000.0, 300, &[300]) - 500.0).abs() < 0.001);
    }
}
