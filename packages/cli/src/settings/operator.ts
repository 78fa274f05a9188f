import { userInfo } from 'node:os'
import type { OutboxAdmin } from '@ackord/outbox'
import { Option } from 'commander'
import { CommandError, exitCode } from '../output/errors.ts'

/** The option for the audit of the store. */
export function byOption(): Option {
  return new Option('--by <name>', 'who does it, for the audit (default: the name of the user who runs the command)')
}

export function operatorOf({ by }: { readonly by?: string | undefined }): string | undefined {
  if (by !== undefined) return by
  try {
    return userInfo().username
  } catch {
    // A container may run under an id without a name.
    return undefined
  }
}

/** A part of the interface for operators that stores of applications may lack. */
export function partOf<Name extends keyof OutboxAdmin>(admin: OutboxAdmin, name: Name): NonNullable<OutboxAdmin[Name]> {
  const part = admin[name]
  if (typeof part !== 'function') throw new CommandError(`This store has no ${name}().`, { exitCode: exitCode.failed })
  // Bound, because a store may be an object of a class.
  return part.bind(admin) as NonNullable<OutboxAdmin[Name]>
}
