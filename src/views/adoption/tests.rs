//! Which definitions are acted on, and what is written down about the others.

use super::super::scripted::{Home, LIMITS, views};
use super::*;

fn raised() -> String {
    LIMITS.replace("definition = 2", "definition = 3").replace("\"/users\"", "\"/seats\"")
}

async fn adopted(home: &Home, text: &str) -> Result<Vec<u64>, AdoptError> {
    let active = adopt(&home.store, &views(text), home.clock.wall()).await?;
    Ok(active.iter().map(|view| view.number).collect())
}

async fn jobs_of(home: &Home) -> Vec<JobTask> {
    jobs::list(&home.mapper()).await.unwrap().into_iter().map(|job| job.task).collect()
}

fn job(definition: u64) -> JobTask {
    JobTask::View { name: "limits".to_owned(), definition }
}

#[tokio::test]
async fn new_or_raised_definition_maps_everything() {
    let home = Home::new();
    assert_eq!(adopted(&home, LIMITS).await, Ok(vec![2]));
    assert_eq!(jobs_of(&home).await, [job(2)]);
    home.store.tamper(Table::Mapping, &ItemKey::new("job", "view#limits"), None);
    assert_eq!(adopted(&home, LIMITS).await, Ok(vec![2]));
    assert!(jobs_of(&home).await.is_empty(), "nothing is new");
    assert_eq!(adopted(&home, &raised()).await, Ok(vec![3]));
    assert_eq!(jobs_of(&home).await, [job(3)]);
}

#[tokio::test]
async fn old_definition_queues_newer_definitions_job() {
    let home = Home::new();
    adopted(&home, &raised()).await.unwrap();
    home.store.tamper(Table::Mapping, &ItemKey::new("job", "view#limits"), None);
    assert_eq!(adopted(&home, LIMITS).await, Ok(vec![]));
    assert_eq!(jobs_of(&home).await, [job(3)], "for the process that has the third definition");
    // The same for a view that this process does not know.
    home.store.tamper(Table::Mapping, &ItemKey::new("job", "view#limits"), None);
    let other = LIMITS.replace("\"limits\"", "\"other\"");
    assert_eq!(adopted(&home, &other).await, Ok(vec![2]));
    assert!(jobs_of(&home).await.contains(&job(3)));
}

#[tokio::test]
async fn changed_content_under_number_is_refused() {
    let home = Home::new();
    adopted(&home, LIMITS).await.unwrap();
    let changed = LIMITS.replace("\"/users\"", "\"/seats\"");
    let error = adopted(&home, &changed).await.unwrap_err();
    assert_eq!(error.to_string(), "view limits: definition 2 is known with another content; raise its number");
    let of: Vec<ViewDefinition> = views(&changed).iter().map(|view| (**view).clone()).collect();
    assert_eq!(check(&home.store, &of).await, Err(error));
    let raised: Vec<ViewDefinition> = views(&raised()).iter().map(|view| (**view).clone()).collect();
    assert_eq!(check(&home.store, &raised).await, Ok(()));
    assert_eq!(adopted(&home, LIMITS).await, Ok(vec![2]), "to check writes nothing");
}

#[tokio::test]
async fn unreadable_definition_is_rewritten_and_remapped() {
    let home = Home::new();
    adopted(&home, LIMITS).await.unwrap();
    home.store.tamper(Table::Mapping, &ItemKey::new("job", "view#limits"), None);
    let key = ItemKey::new(PARTITION, "limits");
    home.store.tamper(Table::Mapping, &key, Some(Item::new(key.clone(), 2).with_note("{")));
    assert_eq!(adopted(&home, LIMITS).await, Ok(vec![2]));
    assert_eq!(jobs_of(&home).await, [job(2)]);
    // A greater number counts, whatever its content was.
    home.store.tamper(Table::Mapping, &key, Some(Item::new(key.clone(), 3)));
    assert_eq!(adopted(&home, LIMITS).await, Ok(vec![]));
}
