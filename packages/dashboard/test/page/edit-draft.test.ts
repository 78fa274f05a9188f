import { describe, expect, it } from 'vitest'
import { editOf, editProblem, startDraft } from '../../page/state/edit-draft.ts'
import type { Payload, RecordDetail } from '../../src/index.ts'

function record(payload: Payload | undefined): RecordDetail {
  return {
    id: '1',
    state: 'parked',
    destination: 'billing',
    partition: undefined,
    messageId: 'm',
    type: 't',
    orderingKey: undefined,
    attempts: 1,
    createdAt: 0,
    availableAt: 0,
    leasedUntil: undefined,
    publishedAt: undefined,
    parkedAt: 0,
    lastError: undefined,
    cause: undefined,
    size: 10,
    attributes: { type: 't', count: 7, urgent: true },
    contentType: 'application/json',
    payload,
    history: [],
    behind: [],
    behindComplete: true,
    references: {},
    traceId: undefined,
  }
}

const json = record({ kind: 'json', content: '{"a":1,"b":"\u202e"}', truncated: false })

describe('an edited record', () => {
  it('is unchanged at first', () => {
    expect(editOf(json, startDraft(json))).toBeUndefined()
    expect(editProblem(json, startDraft(json))).toBeUndefined()
  })

  it('shows invisible characters of JSON as escapes, which mean the same', () => {
    const { payload = '' } = startDraft(json)
    expect(payload).toBe('{\n  "a": 1,\n  "b": "\\u202e"\n}')
    expect(JSON.parse(payload)).toEqual({ a: 1, b: '\u202e' })
  })

  it('sends only what has changed, and a payload of one line as one line', () => {
    const draft = { ...startDraft(json), destination: 'archive', payload: '{\n  "a": 2\n}' }
    expect(editOf(json, draft)).toEqual({ destination: 'archive', payload: { kind: 'json', content: '{"a":2}' } })
  })

  it('keeps the types of attributes', () => {
    const start = startDraft(json)
    const draft = { ...start, attributes: { ...start.attributes, count: '8', urgent: 'false' }, added: { name: ' extra ', value: '1' } }
    expect(editOf(json, draft)).toEqual({ attributes: { count: 8, urgent: false, extra: '1' } })
  })

  it.each([
    [{ destination: ' ' }, 'The destination must not be empty.'],
    [{ payload: '{a}' }, /^The payload is not valid JSON: /],
    [{ attributes: { count: 'many' } }, 'The attribute count must be a number.'],
    [{ attributes: { urgent: 'yes' } }, 'The attribute urgent must be true or false.'],
    [{ added: { name: '', value: 'x' } }, 'The new attribute needs a name.'],
  ])('is rejected with %j', (changes, problem) => {
    expect(editProblem(json, { ...startDraft(json), ...changes })).toMatch(problem)
  })

  it('does not offer a payload that is hidden, binary or incomplete', () => {
    const others = [
      undefined,
      { kind: 'binary', content: 'AA==', truncated: false },
      { kind: 'json', content: '{', truncated: true },
    ] as const
    expect(others.map((payload) => startDraft(record(payload)).payload)).toEqual([undefined, undefined, undefined])
  })
})
