//! CPU use of the whole machine: every process, the kernel included.

use std::time::Duration;

/// The kernel counts in hundredths of a second.
const TICK: Duration = Duration::from_millis(10);

pub(crate) fn worked() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").expect("Linux counts its processors' time");
    let all = stat.lines().next().expect("the first line sums the cores up");
    let ticks: Vec<u64> = all.split_whitespace().skip(1).map(|ticks| ticks.parse().unwrap()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal, …: counts neither idle, nor waiting, nor another guest's
    // time.
    let busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
    TICK * u32::try_from(busy).expect("a machine has not worked for a year and a half")
}
