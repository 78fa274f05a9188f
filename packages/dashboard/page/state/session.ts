import { signal } from '@preact/signals'
import type { Right, Session } from '../../src/api/types.ts'

export const session = signal<Session | undefined>(undefined)

/** Whether an action with this right may be offered. The server checks it again. */
export function may(right: Right): boolean {
  const { value } = session
  return value?.rights.includes(right) === true && (!value.readOnly || right === 'view' || right === 'payload')
}
