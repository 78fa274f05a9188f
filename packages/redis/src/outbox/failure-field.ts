import { historyLine, maxHistoryLength, type RecordFailure, readHistory } from '@ackord/outbox'
import type { RedisPort, Reply } from '../client/port.ts'

// Both outboxes keep what they know of a record's failures in one field of the hash `errors`: the last error, its cause, and the history (`readHistory()`), with a NUL
// between them. Older versions wrote the last error alone, and may still do so beside this one: such a field has no cause, and its history is lost.

interface StoredFailure {
  readonly lastError: string | undefined
  readonly cause: string | undefined
  readonly history: string | undefined
}

/** The cause of records that are parked because they cannot be read. */
export const unreadableCause = 'It cannot be read.'

const maxErrorLength = 10_000
const maxCauseLength = 200

/** The arguments of a failure for scripts: error, cause and the line of the history. */
export function failureArguments(error: string, cause: string | undefined): readonly [string, string, string] {
  const text = withoutNul(shortened(error, maxErrorLength))
  return [text, withoutNul(shortened(cause ?? '', maxCauseLength)), historyLine(text)]
}

/** `field`: in any form of a reply, and empty if the record has not failed. */
export function readFailure(field: Reply | undefined): StoredFailure {
  if (field === null || field === undefined || field === false) return { lastError: undefined, cause: undefined, history: undefined }
  const [lastError, cause, history] = String(field).split('\0')
  return { lastError, cause: cause === '' ? undefined : cause, history }
}

/** The last errors of a record, the latest first. */
export async function readHistoryField(port: RedisPort, errorsKey: string, id: string): Promise<readonly RecordFailure[]> {
  const field = await port.send({ name: 'HGET', args: [errorsKey, id], keys: [0] }, { binary: true })
  return readHistory(readFailure(field).history)
}

/**
 * For scripts: `failureField(before, now, error, cause, line)` returns the field of a record with another failure. `before`: its present field, or false. Cause and line
 * are the error by default. A history that is too long loses its first lines as a whole, so that no character is cut.
 */
export const failureLua: string = `local function failureField(before, now, error, cause, line)
  local earlier = before and string.match(before, '%z[^%z]*%z(.+)$')
  local history = string.format('%.0f', now) .. ' ' .. (line or error)
  if earlier then history = earlier .. '\\n' .. history end
  if #history > ${maxHistoryLength} then history = string.match(string.sub(history, -${maxHistoryLength}), '\\n(.*)$') end
  return error .. '\\0' .. (cause or error) .. '\\0' .. history
end`

function withoutNul(text: string): string {
  return text.replaceAll('\0', '')
}

/** Longer texts are cut, but not within a surrogate pair. */
function shortened(text: string, maxLength: number): string {
  if (text.length <= maxLength) return text
  const last = text.charCodeAt(maxLength - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? maxLength - 1 : maxLength)
}
