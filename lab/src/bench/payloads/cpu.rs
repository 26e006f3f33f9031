//! CPU time of this thread, which other work on the machine changes little.

use std::time::Duration;

use crate::bench::result::median;

/// Bound on the time of a measurement, and its number of parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CpuBudget {
    pub parts: usize,
    pub part: Duration,
}

impl CpuBudget {
    /// CPU time of `work`, in microseconds: the median over the parts, each of which repeats it
    /// until its time is spent, at least once.
    pub(crate) fn spent_us(self, mut work: impl FnMut()) -> f64 {
        let parts = (0..self.parts).map(|_| {
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
        });
        median(parts)
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
    fn measured_work_runs_and_scales() {
        let mut times = 0;
        CpuBudget { parts: 3, part: Duration::ZERO }.spent_us(|| times += 1);
        assert_eq!(times, 3);
        assert!(sum_us(20_000) > sum_us(2_000), "ten times the work");
    }

    /// CPU time of a sum of so many numbers.
    fn sum_us(count: u64) -> f64 {
        CpuBudget { parts: 5, part: Duration::from_micros(200) }.spent_us(|| {
            std::hint::black_box((0..count).fold(0_u64, |sum, it| std::hint::black_box(sum ^ it)));
        })
    }
}
