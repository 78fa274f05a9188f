import type { ReplayPreview } from '@ackord/core/broker'
import type {
  AuditEntry,
  DestinationPause,
  InboxEntry,
  OutboxEdit,
  OutboxFilter,
  OutboxGroup,
  OutboxRate,
  OutboxState,
  RecordFailure,
  RelayReport,
} from '@ackord/outbox'

// The JSON API of the dashboard. All paths are below `<basePath>/api`. Instants are milliseconds since the epoch, by the clock of the store unless something else is said.
//
//     GET  session                                   Session
//     GET  overview                                  Overview
//     GET  events                                    server-sent events `overview`, each with an Overview
//     GET  stores/:store/records?<RecordQuery>       RecordPage
//     GET  stores/:store/records/:id                 RecordDetail
//     GET  stores/:store/records/:id/payload         the bytes, as a download
//     GET  stores/:store/groups?by=failure|type|destination&state=…&destination=…   RecordGroups
//     GET  stores/:store/audit                       { entries: AuditEntry[] }
//     POST stores/:store/preview      ActionRequest  Preview
//     POST stores/:store/actions      ActionRequest  Job
//     GET  jobs/:id                                  Job
//     POST jobs/:id/stop                             Job
//     GET  inboxes/:inbox?id=…&consumer=…&source=…   { entries: InboxEntry[] }
//     GET  dead-letters/:name                        { letters: DeadLetterSummary[], count: number }
//     GET  dead-letters/:name/letters/:id            { letters: DeadLetterDetail[] }
//     POST dead-letters/:name/preview ReplayRequest  ReplayPreview
//     POST dead-letters/:name/replay  ReplayRequest  Job
//     POST doctor                                    { checks: DoctorCheck[] }
//
// A failed request has the status 400, 401, 403, 404, 409, 413, 429 or 500 and an ApiError. A POST needs `content-type: application/json` and the header
// `x-ackord-csrf` with the token of the session.

/** A permission of a user. `view`: everything except payloads. `edit`: change a record while re-arming it. */
export type Right = 'view' | 'payload' | 'rearm' | 'edit' | 'discard' | 'pause'

export interface Session {
  /** For the audit, and shown on the page. */
  readonly name: string
  readonly rights: readonly Right[]
  readonly readOnly: boolean
  /** To be sent with each POST. */
  readonly csrf: string
  readonly stores: readonly string[]
  readonly inboxes: readonly string[]
  readonly deadLetters: readonly string[]
  readonly doctor: boolean
  /** With `{traceId}` for the id of a trace. */
  readonly traceUrl: string | undefined
  readonly version: string
}

export interface DestinationOverview {
  readonly destination: string
  readonly ready: number
  readonly waiting: number
  readonly leased: number
  readonly parked: number
  readonly published: number
  /** Whether one of the numbers is a lower limit. */
  readonly capped: boolean
  readonly oldestAge: number | undefined
  readonly paused: DestinationPause | undefined
  /** For how many milliseconds a relay has found it down; `undefined` if it is up for all of them. */
  readonly downFor: number | undefined
}

export interface StoreOverview {
  readonly store: string
  /** When the figures were read, by the clock of the process that the dashboard runs in. */
  readonly at: number
  /** Why the store could not be read; the figures are those of the last time then. */
  readonly error: string | undefined
  readonly oldestAge: number | undefined
  readonly destinations: readonly DestinationOverview[]
  /** How many destinations are not listed: those with the fewest records that wait or are parked. Default: 0. */
  readonly omittedDestinations?: number | undefined
  /** `undefined`: they have not been read yet. */
  readonly relays: readonly RelayReport[] | undefined
  /** Of the last 30 minutes, the oldest first. */
  readonly rates: readonly OutboxRate[]
  /** The backlog as the dashboard has seen it in the last 30 minutes, the oldest first. */
  readonly backlog: readonly BacklogPoint[]
}

export interface BacklogPoint {
  /** By the clock of the process that the dashboard runs in. */
  readonly at: number
  /** Ready and waiting records. */
  readonly records: number
  /** All records that are not published, also leased and parked ones; `undefined` if they are too many to count. */
  readonly unpublished: number | undefined
}

/** The counts of the inbox of a consumer. */
export interface ConsumerOverview {
  readonly consumer: string
  /** Handled and committed. */
  readonly handled: number
  /** Acked without being handled, because the inbox knew them. */
  readonly duplicates: number
  /** The last 30 whole minutes, the oldest first. `at`: the start of the minute, by the clock of the process. */
  readonly perMinute: readonly { readonly at: number; readonly handled: number; readonly duplicates: number }[]
}

/** The outcomes of the messages that the process of the dashboard has handled since it started. */
export interface MessagesOverview {
  /** By name. A consumer is there from its first message on. */
  readonly consumers: readonly ConsumerOverview[]
  /** Nacked by any router: the broker delivers them again. */
  readonly failed: number
  /** Rejected by any router. */
  readonly rejected: number
}

export interface Overview {
  readonly stores: readonly StoreOverview[]
  /** `undefined` without `metrics`. */
  readonly messages: MessagesOverview | undefined
}

export interface RecordSummary {
  readonly id: string
  readonly state: OutboxState
  readonly destination: string
  readonly messageId: string | undefined
  readonly type: string | undefined
  readonly orderingKey: string | undefined
  readonly attempts: number
  readonly createdAt: number
  readonly availableAt: number
  readonly leasedUntil: number | undefined
  readonly publishedAt: number | undefined
  readonly parkedAt: number | undefined
  /** The first 300 characters. */
  readonly lastError: string | undefined
  readonly cause: string | undefined
}

/** Also the filter of an action, without `id`, `after` and `limit`. Ages are in milliseconds. */
export interface RecordQuery
  extends Pick<OutboxFilter, 'state' | 'destination' | 'type' | 'orderingKey' | 'messageId' | 'cause' | 'error' | 'minAge' | 'maxAge'> {
  readonly id?: string | undefined
  readonly after?: string | undefined
  /** Default: 50, at most 200. */
  readonly limit?: number | undefined
}

/** A group, and what to filter by to find its records: its name, or an opaque text that stands for a name which `redact` has changed. */
export interface RecordGroup extends OutboxGroup {
  readonly reference: string
}

export interface RecordGroups {
  /** The largest first. */
  readonly groups: readonly RecordGroup[]
  /** Whether all records were read. If not, the numbers are lower limits. */
  readonly complete: boolean
}

/** A page may have fewer records than its limit, even none, and still have a `next`: the search goes on there. */
export interface RecordPage {
  readonly records: readonly RecordSummary[]
  readonly next: string | undefined
  /** All records that were stored until then have been searched; `undefined` if the page is full, or if it is unknown. */
  readonly searchedUntil?: number | undefined
}

export interface RecordDetail extends RecordSummary {
  /** The whole error. */
  readonly lastError: string | undefined
  /** Bytes of the payload. */
  readonly size: number
  /** Texts, numbers and booleans; bytes as base64. */
  readonly attributes: Readonly<Record<string, string | number | boolean>>
  /** The values of a filter that finds records with the same value: the value itself, or an opaque text that stands for one which `redact` has changed. */
  readonly references: Pick<RecordQuery, 'type' | 'messageId' | 'orderingKey' | 'cause'>
  readonly contentType: string | undefined
  /** With order per key, until it is published: only the owner of its partition publishes it. `owner`: the relay that has reported last that it owns the partition. */
  readonly partition: { readonly number: number; readonly owner: Pick<RelayReport, 'id' | 'host' | 'pid'> | undefined } | undefined
  /** `undefined` without the right `payload`. */
  readonly payload: Payload | undefined
  readonly history: readonly RecordFailure[]
  /** Records of the same key and destination that were stored later and are not published: at most 20. */
  readonly behind: readonly RecordSummary[]
  /** Whether all records were searched for `behind`. If not, the search took too long, or the key has many records. */
  readonly behindComplete: boolean
  readonly traceId: string | undefined
}

export interface Payload {
  /** `text` if the bytes are valid UTF-8 without control characters; `binary`: base64. */
  readonly kind: 'json' | 'text' | 'binary'
  /** The first 64 kB. */
  readonly content: string
  readonly truncated: boolean
}

export type Chosen = { readonly ids: readonly string[] } | { readonly filter: Omit<RecordQuery, 'id' | 'after' | 'limit'> }

/** Changes of a record that is re-armed. Several records can get another destination and other attributes, but neither one payload nor one message id. */
export interface RecordEdit extends Pick<OutboxEdit, 'destination'> {
  /** Merged over the record's own attributes; `null` removes one. */
  readonly attributes?: Readonly<Record<string, string | number | boolean | null>> | undefined
  readonly payload?: Pick<Payload, 'kind' | 'content'> | undefined
}

/**
 * `rearm` with `state: 'published'` publishes records again that are kept, with the attribute `replayed`. `cancel` deletes waiting records. `previewAge`: how many milliseconds ago the preview was made. With a filter, records that were stored or
 * parked since then are left out. Default: 0, so that those of the time before the action are changed.
 */
export type ActionRequest = { readonly reason: string } & (
  | {
      readonly action: 'rearm'
      readonly which: Chosen
      readonly state?: 'parked' | 'published' | undefined
      readonly edit?: RecordEdit | undefined
      readonly previewAge?: number | undefined
    }
  | { readonly action: 'discard' | 'cancel'; readonly which: Chosen; readonly previewAge?: number | undefined }
  | { readonly action: 'park'; readonly which: { readonly ids: readonly string[] } }
  | { readonly action: 'pause'; readonly destination: string; readonly duration?: number | undefined }
  | { readonly action: 'resume'; readonly destination: string }
)

export interface Preview {
  /** How many records the action would change now. */
  readonly count: number
  /** Whether counting stopped at 10,000. */
  readonly capped: boolean
}

/** An action that runs in steps. */
export interface Job {
  readonly id: string
  readonly state: 'running' | 'done' | 'stopped' | 'failed'
  readonly action: string
  /** Records that were changed so far. */
  readonly count: number
  /** About how many there are; `undefined` if that is unknown. */
  readonly total: number | undefined
  readonly error: string | undefined
}

export interface DeadLetterSummary {
  /** For requests: the id of its message, its position if that has none, or an opaque text that stands for an id which `redact` has changed. */
  readonly id: string
  /** Where it is at the broker. */
  readonly position: string
  readonly messageId: string | undefined
  readonly type: string | undefined
  /** The destination that it came from. */
  readonly origin: string | undefined
  readonly reason: string | undefined
  /** When it was rejected, by the clock of the service that did. */
  readonly failedAt: number | undefined
  /** Bytes of the payload. */
  readonly size: number
  /** Why the letter is not the whole message. */
  readonly problem: string | undefined
}

export interface DeadLetterDetail extends DeadLetterSummary, Pick<RecordDetail, 'attributes' | 'contentType' | 'payload' | 'traceId'> {}

export interface ReplayRequest {
  /** The ids of letters. Default: all. */
  readonly ids?: readonly string[] | undefined
  readonly reason: string
}

export type { ReplayPreview }

export interface DoctorCheck {
  /** What was checked: the name of a store, or of a broker. */
  readonly store: string
  /** Default: `store`. */
  readonly of?: 'store' | 'broker' | undefined
  readonly title: string
  readonly result: 'ok' | 'warning' | 'failed' | 'unknown'
  readonly text: string
}

export interface ApiError {
  readonly error: {
    /** Such as `forbidden`, `not_found`, `invalid`, `read_only`, `csrf`, `too_many`. */
    readonly code: string
    /** Says what happened, and what to do. */
    readonly message: string
  }
}

export type { AuditEntry, InboxEntry, OutboxRate, OutboxState, RelayReport }
