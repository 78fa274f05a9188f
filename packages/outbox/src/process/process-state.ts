import { AckordError } from '@ackord/core'
import { validateValue } from '@ackord/core/internal'
import { describeProcess } from './process-checks.ts'
import type { ProcessRules } from './process-rules.ts'
import type { ProcessKey, StoredProcess } from './process-store.ts'

/** The state as JSON. Throws if it has none. */
export function encodeState(key: ProcessKey, state: unknown): string {
  let text: string | undefined
  let cause: unknown
  try {
    text = JSON.stringify(state)
  } catch (error) {
    cause = error
  }
  if (text !== undefined) return text
  throw new AckordError(
    'ACKORD_PROCESS_STATE',
    `The state of ${describeProcess(key)} cannot be stored as JSON.`,
    cause === undefined ? {} : { cause },
  )
}

/**
 * The stored state, migrated and validated. A state of a newer release cannot be read here: the message is retried, because an instance of that release, or this one
 * after its deployment, can handle it.
 */
export async function readState<State>(
  rules: ProcessRules<State>,
  key: ProcessKey,
  { state, stateVersion }: StoredProcess,
): Promise<State> {
  const { version, migrate, schema } = rules
  if (stateVersion > version) {
    throw unreadable(key, `has version ${stateVersion}, and this release knows ${version}. A newer release has stored it`)
  }
  let read: unknown
  try {
    read = JSON.parse(state)
  } catch (cause) {
    throw unreadable(key, 'is not JSON', cause)
  }
  try {
    // Required with a version above 1.
    const migrated = stateVersion < version ? migrate?.(read, stateVersion) : read
    if (schema !== undefined) return await validateValue(schema, migrated, () => `state of ${describeProcess(key)}`)
    // As a step has returned it, or as `migrate` has: without a schema, the type is the user's promise.
    return migrated as State
  } catch (cause) {
    throw unreadable(key, `of version ${stateVersion} is not what its definition expects`, cause)
  }
}

function unreadable(key: ProcessKey, problem: string, cause?: unknown): AckordError {
  return new AckordError(
    'ACKORD_PROCESS_STATE',
    `The stored state of ${describeProcess(key)} ${problem}.`,
    cause === undefined ? {} : { cause },
  )
}
