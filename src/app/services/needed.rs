//! Looks at the start whether the tables are there that a process needs, and again until they are:
//! somebody may be creating them.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;

use super::{ServiceProcess, Shell};
use crate::app::limits::LOOK_FOR_TABLES;
use crate::engine::{ItemKey, Table, Tables};

/// A place's tables, and what the place is called.
struct NeededTables {
    place: String,
    tables: Arc<dyn Tables>,
    needed: &'static [Table],
}

/// What is wrong with the tables, one line each; empty once all of them have answered.
#[derive(Clone, Default)]
pub(super) struct Lacking(Arc<Mutex<Vec<String>>>);

impl Lacking {
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps what was found, and tells what was not known yet.
    fn keep(&self, found: Vec<String>) {
        let known = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), found.clone());
        for line in found.iter().filter(|line| !known.contains(line)) {
            tracing::error!("{line}");
        }
        if found.is_empty() && !known.is_empty() {
            tracing::info!("every table that this process needs is there");
        }
    }
}

/// Looks once, and goes on looking if something is wrong.
pub(super) async fn look_for_tables(shell: &Shell, process: &ServiceProcess) -> Lacking {
    let (lacking, places) = (Lacking::default(), places(shell, process).await);
    lacking.keep(wrong(&places).await);
    if !lacking.lines().is_empty() {
        let (kept, stopping) = (lacking.clone(), shell.tasks.stopping());
        shell.tasks.spawn("tables", async move {
            while !kept.lines().is_empty() {
                if stopping.run_until_cancelled(tokio::time::sleep(LOOK_FOR_TABLES)).await.is_none() {
                    return;
                }
                kept.keep(wrong(&places).await);
            }
        });
    }
    lacking
}

async fn places(shell: &Shell, process: &ServiceProcess) -> Vec<NeededTables> {
    let home = |needed| NeededTables { place: "home".to_owned(), tables: shell.engine.home(), needed };
    match process {
        ServiceProcess::Catalogue => vec![home(&[Table::Records, Table::History, Table::Requests])],
        ServiceProcess::Views => vec![home(&[Table::Records, Table::Views, Table::Mapping])],
        ServiceProcess::Region(region, duties) => {
            let (place, tables) = (region.name.clone(), shell.engine.regional(region).await);
            let own = NeededTables { place, tables, needed: &[Table::Contexts, Table::Region] };
            if duties.ingest { vec![home(&[Table::Views, Table::Mapping]), own] } else { vec![own] }
        }
    }
}

async fn wrong(places: &[NeededTables]) -> Vec<String> {
    let nothing = ItemKey::new("is it there", "?");
    let looks = places.iter().flat_map(|place| place.needed.iter().map(move |table| (place, *table)));
    let look = async |(place, table): (&NeededTables, Table)| {
        let answer = place.tables.get(table, &nothing).await;
        answer.err().map(|error| format!("{}: {error}", place.place))
    };
    join_all(looks.map(look)).await.into_iter().flatten().collect()
}
