import { type Attributes, Message, type RawMessage } from '@ackord/core'
import type { AuditEntry, OutboxGroup, OutboxGroups, OutboxRecord, RecordFailure, RecordPartition } from '@ackord/outbox'
import { showPayload, toBase64 } from './payload.ts'
import { recordLike } from './record-like.ts'
import { notRedacted, type Redactor, type VisibleRecord } from './redactor.ts'
import type { SealedTexts } from './sealed-texts.ts'
import type { RecordDetail, RecordGroups, RecordSummary } from './types.ts'

/** Characters of an error in a list. */
const maxShortError = 300

/** Records, errors and groups in the form of the API, after `redact`. */
export class RecordView {
  readonly #redactor: Redactor
  readonly #sealed: SealedTexts

  constructor(redactor: Redactor, sealed: SealedTexts) {
    this.#redactor = redactor
    this.#sealed = sealed
  }

  /** Whether a list must have the payloads of its records: `redact` may look at them. */
  get needsPayloads(): boolean {
    return this.#redactor.isActive
  }

  summary(record: OutboxRecord): RecordSummary {
    return summaryOf(this.#redactor.show(record))
  }

  /** `payload`: whether the user may see it. */
  detail(
    record: OutboxRecord,
    parts: {
      readonly payload: boolean
      readonly history: readonly RecordFailure[]
      readonly partition: RecordPartition | undefined
      readonly behind: readonly OutboxRecord[]
      readonly behindComplete: boolean
    },
  ): RecordDetail {
    const shown = this.#redactor.show(record)
    const { message, lastError } = shown
    const summary = summaryOf(shown)
    return {
      ...summary,
      lastError,
      size: shown.size,
      references: this.#referencesOf(record, summary),
      attributes: attributesOf(message?.attributes ?? {}),
      contentType: message?.dataContentType,
      partition: parts.partition && partitionView(parts.partition),
      payload: parts.payload && message !== undefined ? showPayload(message.data, message.dataContentType) : undefined,
      history: parts.history.map(({ at, error }) => ({ at, error: this.#redactor.showError(record, error) })),
      behind: parts.behind.map((each) => this.summary(each)),
      behindComplete: parts.behindComplete,
      traceId: traceIdOf(message?.attributes.traceparent),
    }
  }

  /** The bytes that may be downloaded; `undefined` if they could not be redacted. */
  payload(record: OutboxRecord): Uint8Array | undefined {
    return this.#redactor.show(record).message?.data
  }

  /** Whether users see another payload than the one that is stored. */
  isPayloadRedacted(record: OutboxRecord): boolean {
    const shown = this.payload(record)
    return shown === undefined || Buffer.compare(shown, record.message.data) !== 0
  }

  /** Which of these attributes users see otherwise than they are stored. */
  redactedAttributes(record: OutboxRecord, names: readonly string[]): readonly string[] {
    const stored = attributesOf(record.message.attributes)
    const shown = attributesOf(this.#redactor.show(record).message?.attributes ?? {})
    return names.filter((name) => stored[name] !== shown[name])
  }

  /** A text that may be about any record, such as the error of an action. */
  errorText(error: string): string {
    return this.#redactor.showError(recordLike(emptyMessage({})), error)
  }

  /** Filters and the ids of dead letters are from records. Ids of records and destinations are never redacted. */
  auditEntry(entry: AuditEntry): AuditEntry {
    const { action, what, error } = entry
    const isRedacted = action === 'replay' || what.startsWith('{')
    return { ...entry, what: isRedacted ? this.errorText(what) : what, error: error === undefined ? undefined : this.errorText(error) }
  }

  /** The names of groups are from records, too: causes are made from errors, and types are attributes. */
  groups(by: 'failure' | 'type' | 'destination', { groups, complete }: OutboxGroups): RecordGroups {
    const nameOf = ({ name }: OutboxGroup): string => {
      if (by === 'destination') return name
      return by === 'failure' ? this.errorText(name) : (this.summary(recordLike(emptyMessage({ type: name }))).type ?? notRedacted)
    }
    const shown = groups.map((group) => {
      const name = nameOf(group)
      return { ...group, name, reference: this.#sealed.referenceTo(group.name, name) }
    })
    return { groups: shown, complete }
  }

  #referencesOf(record: OutboxRecord, shown: RecordSummary): RecordDetail['references'] {
    const stored = summaryOf(record)
    const references: Partial<Record<(typeof referenced)[number], string>> = {}
    for (const name of referenced) {
      const [text, visible] = [stored[name], shown[name]]
      if (text !== undefined && visible !== undefined) references[name] = this.#sealed.referenceTo(text, visible)
    }
    return references
  }
}

const referenced = ['type', 'messageId', 'orderingKey', 'cause'] as const

function summaryOf({ message, ...record }: Omit<VisibleRecord, 'size'>): RecordSummary {
  const { id, state, destination, attempts, createdAt, availableAt, leasedUntil, publishedAt, parkedAt, lastError, cause } = record
  const key: unknown = message?.attributes.partitionkey
  return {
    id,
    state,
    destination,
    messageId: message?.id,
    type: message?.type,
    orderingKey: key === undefined ? undefined : String(key),
    attempts,
    createdAt,
    availableAt,
    leasedUntil,
    publishedAt,
    parkedAt,
    lastError: lastError?.slice(0, maxShortError),
    cause,
  }
}

function partitionView({ number, owner }: RecordPartition): RecordDetail['partition'] {
  return { number, owner: owner && { id: owner.id, host: owner.host, pid: owner.pid } }
}

export function attributesOf(attributes: Attributes): RecordDetail['attributes'] {
  const shown: [name: string, value: string | number | boolean][] = []
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined) continue
    if (value instanceof Uint8Array) shown.push([name, toBase64(value)])
    else shown.push([name, value instanceof Date ? value.toISOString() : value])
  }
  return Object.fromEntries(shown)
}

/** The second part of a `traceparent` of W3C Trace Context. */
export function traceIdOf(traceparent: unknown): string | undefined {
  return typeof traceparent === 'string' ? /^[\da-f]{2}-([\da-f]{32})-/.exec(traceparent)?.[1] : undefined
}

/** For a text that belongs to no single record. Its payload is an empty object, so that a function that parses JSON can read it. */
function emptyMessage(attributes: Attributes): RawMessage {
  return new Message(new TextEncoder().encode('{}'), { datacontenttype: 'application/json', ...attributes })
}
