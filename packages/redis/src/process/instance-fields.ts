import type { ProcessKey, ProcessRecord, StoredProcess } from '@ackord/outbox'

/** The fields of the hash of an instance. `expires_at` is there once it has finished. */
export const fieldNames = ['version', 'state', 'state_version', 'timeouts', 'started_at', 'changed_at', 'expires_at'] as const

export type Fields = { readonly [Name in (typeof fieldNames)[number]]?: string }

/** `undefined` if there is no instance. Redis forgets finished ones by itself. */
export function storedOf({ version, state = '', state_version, timeouts = '{}', expires_at }: Fields): StoredProcess | undefined {
  if (version === undefined) return undefined
  return {
    phase: expires_at === undefined ? 'running' : 'finished',
    version: Number(version),
    state,
    stateVersion: Number(state_version),
    // As save() wrote them.
    timeouts: JSON.parse(timeouts) as StoredProcess['timeouts'],
  }
}

export function recordOf({ process, id }: ProcessKey, fields: Fields): ProcessRecord | undefined {
  const stored = storedOf(fields)
  if (stored === undefined) return undefined
  const { started_at, changed_at, expires_at } = fields
  return {
    ...stored,
    process,
    id,
    phase: expires_at === undefined ? 'running' : 'finished',
    startedAt: Number(started_at),
    changedAt: Number(changed_at),
    expiresAt: expires_at === undefined ? undefined : Number(expires_at),
  }
}
