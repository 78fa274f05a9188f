import { describeValue } from '@ackord/core/internal'
import type { Action } from '../api/action-request.ts'
import type { Right } from '../api/types.ts'
import { forbidden } from '../http/api-failure.ts'

export const allRights: readonly Right[] = ['view', 'payload', 'rearm', 'edit', 'discard', 'pause']
const maxNameLength = 200

/** Who sends a request, and what they may do. */
export interface Identity {
  /** For the audit, and shown on the page. */
  readonly name: string
  readonly rights: readonly Right[]
}

/** The result of `authorize`. Throws if it is none: a misspelt right must not be ignored. */
export function checkIdentity(found: unknown): Identity {
  const { name, rights } = (typeof found === 'object' && found !== null ? found : {}) as Partial<Record<keyof Identity, unknown>>
  if (typeof name !== 'string' || name === '' || name.length > maxNameLength)
    throw new TypeError(`authorize() must return a name of 1 to ${maxNameLength} characters; it is ${describeValue(name)}.`)
  if (!Array.isArray(rights) || !rights.every((right) => allRights.includes(right)))
    throw new TypeError(`authorize() must return rights, each of them one of ${allRights.join(', ')}.`)
  return { name, rights }
}

export function checkRights({ name, rights }: Identity, needed: readonly Right[]): void {
  const missing = needed.find((right) => !rights.includes(right))
  if (missing !== undefined) throw forbidden('forbidden', `${name} does not have the right '${missing}'.`)
}

/** Parking a record holds it back, as a pause does with all records of a destination. */
export function rightsFor(action: Action): readonly Right[] {
  switch (action.action) {
    case 'rearm':
      return ['rearm', ...editRights(action.edit)]
    case 'discard':
    case 'cancel':
      return ['discard']
    default:
      return ['pause']
  }
}

function editRights(edit: (Action & { readonly action: 'rearm' })['edit']): readonly Right[] {
  if (edit === undefined) return []
  return edit.data === undefined ? ['edit'] : ['edit', 'payload']
}
