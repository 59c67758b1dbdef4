//! One parcel as one message.

use crate::Parcel;
use delayq_service::brokers::SqsLetter;
use std::borrow::Cow;

/// The headers that name a message. Then come the message's own: the last ones share an attribute if there are many.
const FIRST: [&str; 4] = ["delayq-id", "delayq-topic", "delayq-group", "delayq-due"];

pub(super) fn letter(parcel: &Parcel) -> SqsLetter<'_> {
    let own = |is_first| {
        let own = parcel.about.headers().map(|(name, value)| -> (&str, _) { (name, value) });
        own.filter(move |(name, _)| FIRST.contains(name) == is_first)
    };
    let of_message = parcel.headers.iter().map(|(name, value)| (name.as_str(), value.as_str().into()));
    let all = own(true).chain(of_message).chain(own(false));
    let headers = all.map(|(name, value)| (name.into(), bytes(value)));
    SqsLetter {
        queue: &parcel.destination,
        headers: headers.collect(),
        body: &parcel.body,
        group: parcel.key.as_deref().unwrap_or(&parcel.about.id),
        // An own id that is put again with the same content is another message.
        identity: format!("{}/{}", parcel.about.identity, parcel.about.due.get()),
    }
}

fn bytes(text: Cow<'_, str>) -> Cow<'_, [u8]> {
    match text {
        Cow::Borrowed(text) => text.as_bytes().into(),
        Cow::Owned(text) => text.into_bytes().into(),
    }
}
