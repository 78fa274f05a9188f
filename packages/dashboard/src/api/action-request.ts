import { type Attributes, isAckordError } from '@ackord/core'
import { checkAttributes } from '@ackord/core/broker'
import type { OutboxEdit, OutboxFilter } from '@ackord/outbox'
import { invalid } from '../http/api-failure.ts'
import { decodePayload } from './payload.ts'
import { type Fields, optional, readChoice, readFields, readNumber, readText, readTexts } from './read-input.ts'
import { maxIdLength, maxReferenceLength, type Resolve, readFilter } from './record-query.ts'

/** An `ActionRequest` that was checked, in the terms of a store. */
export type Action = { readonly reason: string } & (
  | {
      readonly action: 'rearm'
      readonly which: Chosen
      readonly state: 'parked' | 'published'
      readonly edit: OutboxEdit | undefined
    }
  | { readonly action: 'discard' | 'cancel'; readonly which: Chosen }
  | { readonly action: 'park'; readonly which: { readonly ids: readonly string[] } }
  | { readonly action: 'pause'; readonly destination: string; readonly duration: number | undefined }
  | { readonly action: 'resume'; readonly destination: string }
)

/** `previewAge`: how many milliseconds ago the user has seen how many records the filter selects. */
type Chosen = { readonly ids: readonly string[] } | { readonly filter: OutboxFilter; readonly previewAge: number }

const maxIds = 1000
const maxReasonLength = 500
const maxDestinationLength = 2000
const maxDuration = 365 * 24 * 60 * 60 * 1000

const actionFields = {
  rearm: ['which', 'state', 'edit', 'previewAge'],
  discard: ['which', 'previewAge'],
  cancel: ['which', 'previewAge'],
  park: ['which'],
  pause: ['destination', 'duration'],
  resume: ['destination'],
} as const

export function readAction(body: unknown, resolve: Resolve): Action {
  const kinds = Object.keys(actionFields) as (keyof typeof actionFields)[]
  const kind = readChoice((body as Fields | null)?.['action'], 'action', kinds)
  const fields = readFields(body, 'The action', ['action', 'reason', ...actionFields[kind]])
  const reason = readReason(fields['reason'])
  const destination = () => readText(fields['destination'], 'destination', maxDestinationLength)
  switch (kind) {
    case 'rearm': {
      const state = optional(fields['state'], (value) => readChoice(value, 'state', ['parked', 'published'] as const)) ?? 'parked'
      const which = readChosen(fields, state, resolve)
      return { action: kind, reason, which, state, edit: optional(fields['edit'], (value) => readEdit(value, which)) }
    }
    case 'discard':
      return { action: kind, reason, which: readChosen(fields, 'parked', resolve) }
    case 'cancel':
      return { action: kind, reason, which: readChosen(fields, 'waiting', resolve) }
    case 'park':
      return { action: kind, reason, which: { ids: readIds(readFields(fields['which'], 'which', ['ids'])['ids']) } }
    case 'pause': {
      const duration = optional(fields['duration'], (value) => readNumber(value, 'duration', { min: 1, max: maxDuration }))
      return { action: kind, reason, destination: destination(), duration }
    }
    case 'resume':
      return { action: kind, reason, destination: destination() }
  }
}

export interface Replay {
  readonly ids: readonly string[] | undefined
  readonly reason: string
}

export function readReplay(body: unknown, resolve: Resolve): Replay {
  const fields = readFields(body, 'The request', ['ids', 'reason'])
  const ids = optional(fields['ids'], (value) => readTexts(value, 'ids', { count: maxIds, length: maxReferenceLength }).map(resolve))
  return { ids, reason: readReason(fields['reason']) }
}

function readReason(value: unknown): string {
  return readText(typeof value === 'string' ? value.trim() : value, 'reason', maxReasonLength)
}

function readIds(value: unknown): readonly string[] {
  return readTexts(value, 'ids', { count: maxIds, length: maxIdLength })
}

/** A filter chooses only records in the state that the action changes. */
function readChosen(action: Fields, state: 'parked' | 'published' | 'waiting', resolve: Resolve): Chosen {
  const fields = readFields(action['which'], 'which', ['ids', 'filter'])
  const previewAge = optional(action['previewAge'], (value) => readNumber(value, 'previewAge', { min: 0, max: maxDuration })) ?? 0
  if ((fields['ids'] === undefined) === (fields['filter'] === undefined)) throw invalid('which must have either ids or a filter.')
  if (fields['ids'] !== undefined) return { ids: readIds(fields['ids']) }
  const filter = readFilter(fields['filter'], resolve)
  if (filter.state !== undefined && filter.state !== state)
    throw invalid(`The action changes records that are ${state}; the filter chooses records that are ${filter.state}.`)
  return { filter: { ...filter, state }, previewAge }
}

function readEdit(value: unknown, which: Chosen): OutboxEdit | undefined {
  const fields = readFields(value, 'edit', ['destination', 'attributes', 'payload'])
  const destination = optional(fields['destination'], (given) => readText(given, 'edit.destination', maxDestinationLength))
  const attributes = optional(fields['attributes'], readAttributes)
  const data = optional(fields['payload'], decodePayload)
  const isOneRecord = 'ids' in which && which.ids.length === 1
  if (data !== undefined && !isOneRecord)
    throw invalid('A payload can be edited for one record at a time: several records would get the same payload.')
  if (attributes !== undefined && 'id' in attributes && !isOneRecord)
    throw invalid('A message id can be edited for one record at a time: consumers would take several records for one message.')
  const edit = {
    ...(destination !== undefined && { destination }),
    ...(attributes !== undefined && { attributes }),
    ...(data !== undefined && { data }),
  }
  return Object.keys(edit).length === 0 ? undefined : edit
}

/** `null` removes an attribute. */
function readAttributes(value: unknown): Attributes {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw invalid('edit.attributes must be an object.')
  const attributes = Object.fromEntries(Object.entries(value).map(([name, each]) => [name, each === null ? undefined : each])) as Attributes
  try {
    checkAttributes(attributes, 'the edit')
  } catch (error) {
    if (isAckordError(error)) throw invalid(error.message)
    throw error
  }
  return attributes
}
