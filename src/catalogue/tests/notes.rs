//! Notes beside the versions of the history.

use super::*;

fn author(name: &str, reason: &str) -> Author {
    Author {
        by: Writer::Consumer(name.into()),
        principal: Some(Principal::token("https://issuer.example", name)),
        request: RequestId::of("r-1").unwrap(),
        reason: Reason::of(reason),
    }
}

impl Stage {
    /// Writers and reasons of a shard's versions.
    async fn notes(&self, key: &str) -> Vec<(String, Option<String>)> {
        let page = self.catalogue.history("shard", key, 10, None).await.unwrap();
        page.records.into_iter().map(|record| (record.note.by.unwrap(), record.note.reason)).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn history_says_who_changed_what() {
    let stage = stage();
    let key = once("k");
    stage.catalogue.write(shard("a", 1), Some(&key), &author("jira", "first")).await.unwrap();
    // What is repeated changes nothing, whatever reason it gives now.
    assert!(stage.catalogue.write(shard("a", 1), Some(&key), &author("jira", "again")).await.unwrap().1);
    let batch = [shard("a", 2), shard("b", 1)];
    stage.catalogue.batch(&batch, None, &author("wiki", "second")).await.unwrap();
    stage.catalogue.write(RecordWrite::delete("shard", "a"), None, &Author::anonymous()).await.unwrap();
    let [first, second, last] = [("jira", "first"), ("wiki", "second"), ("", "")].map(|(by, reason)| match by {
        "" => ("anonymous".to_owned(), None),
        _ => (format!("consumer/{by}"), Some(reason.to_owned())),
    });
    assert_eq!(stage.notes("a").await, [first, second.clone(), last]);
    assert_eq!(stage.notes("b").await, [second]);
    // Views and readers have nothing of it.
    assert!(stage.memory.dump(Table::Records).iter().all(|item| item.note.is_none()));
}

/// A record that changes within one millisecond runs ahead of the calendar.
#[tokio::test(start_paused = true)]
async fn notes_have_the_time_of_the_request() {
    let stage = stage();
    for n in 0..3 {
        stage.catalogue.write(shard("a", n), None, &Author::anonymous()).await.unwrap();
    }
    let page = stage.catalogue.history("shard", "a", 10, None).await.unwrap();
    let times = page.records.iter().map(|record| record.note.at(record.version).as_millis() - NOW);
    assert_eq!(times.collect::<Vec<_>>(), [0, 0, 0]);
    assert_eq!(page.records[0].note.at, None, "it is the version");
}
