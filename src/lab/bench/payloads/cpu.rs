//! CPU time of this thread, which other work on the machine changes little.

use std::time::Duration;

use crate::lab::bench::result::median;

/// How long a piece of work may be measured, and in how many parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuBudget {
    pub parts: usize,
    pub part: Duration,
}

impl CpuBudget {
    /// What `work` takes, in microseconds: the median over the parts, each of which repeats it until
    /// its time is spent, at least once.
    pub(crate) fn spent_us(self, mut work: impl FnMut()) -> f64 {
        let part = |_| {
            let began = cpu();
            let mut times = 0_u32;
            loop {
                work();
                times += 1;
                let spent = cpu().saturating_sub(began);
                if spent >= self.part {
                    return spent.as_secs_f64() * 1e6 / f64::from(times);
                }
            }
        };
        median((0..self.parts).map(part))
    }
}

fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_once_at_least_and_twice_the_work_takes_longer() {
        let mut times = 0;
        CpuBudget { parts: 3, part: Duration::ZERO }.spent_us(|| times += 1);
        assert_eq!(times, 3);
        let of = |rounds: u64| {
            let sum = move || (0..rounds).fold(0_u64, |sum, it| std::hint::black_box(sum ^ it));
            CpuBudget { parts: 5, part: Duration::from_micros(200) }.spent_us(|| {
                std::hint::black_box(sum());
            })
        };
        assert!(of(20_000) > of(2_000), "ten times the work");
    }
}
