import { AckordError, InvalidOptionError } from '@ackord/core'
import { checkCount, checkDuration, checkName, escapeText, rejectUnknownOptions } from '@ackord/core/internal'
import type { ProcessKey, ProcessQuery } from './process-store.ts'

/** In UTF-16 code units, each of which has at most three bytes in UTF-8: both parts fit into an index entry of every database. */
const maxKeyLength = 255

/** For stores: throws if a part of the key cannot be stored unchanged. Returns the key. */
export function checkProcessKey(key: ProcessKey): ProcessKey {
  for (const part of ['process', 'id'] as const) {
    const problem = problemOfProcessId(checkName(part, key[part]))
    if (problem !== undefined) throw new InvalidOptionError(part, `${problem}.`)
  }
  return key
}

/** The reason why a non-empty text cannot be the id of an instance or the name of a process; `undefined` if it can. */
export function problemOfProcessId(text: string): string | undefined {
  if (text.includes('\0')) return 'contains a NUL character'
  if (!text.isWellFormed()) return 'is not well-formed Unicode'
  return text.length > maxKeyLength ? `has more than ${maxKeyLength} characters` : undefined
}

/** For stores: throws if the query is invalid. Returns it with defaults. */
export function checkProcessQuery(query: ProcessQuery): ProcessQuery & { readonly limit: number } {
  const { process, phase, idleFor, limit = 100, after, ...unknown } = query
  rejectUnknownOptions('list()', unknown)
  if (process !== undefined) checkName('process', process)
  if (phase !== undefined && phase !== 'running' && phase !== 'finished') {
    throw new InvalidOptionError('phase', "must be 'running' or 'finished'.")
  }
  if (idleFor !== undefined) checkDuration('idleFor', idleFor)
  checkCount('limit', limit)
  return { process, phase, idleFor, limit, after }
}

/** For stores: the error of a change whose instance another transaction has changed. Transactions retry it. */
export function processConflict(key: ProcessKey): AckordError {
  return new AckordError('ACKORD_TRANSACTION_CONFLICT', `Another message has changed ${describeProcess(key)} at the same time.`)
}

/** Names an instance in errors. */
export function describeProcess({ process, id }: ProcessKey): string {
  return `the process '${escapeText(process, 100)}' of '${escapeText(id, 100)}'`
}
