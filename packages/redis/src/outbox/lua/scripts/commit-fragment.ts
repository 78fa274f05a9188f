import { script } from '../../../client/port.ts'
import type { CommitFragment } from '../../../client/queued-command.ts'
import { cancelLua } from './cancel.ts'
import { enqueueLua } from './enqueue-fragment.ts'
import { ackordLua } from './prelude.ts'

/**
 * `append()` and `cancel()` in the commit of a transaction. Keys: those of a shard; arguments: as `ackord.enqueue` or `ackord.cancel` takes them.
 *
 * Their writes cannot be rolled back, because they change parts of large keys. They come after all other commands, and everything that could make them fail is checked before.
 */
export const outboxFragment: CommitFragment = {
  letter: 'q',
  ...script(`${ackordLua}
${enqueueLua}
${cancelLua}
function fragment.begin() ackord.planned = {} end
function fragment.check(name, k, a) return (name == 'cancel()' and ackord.checkCancel or ackord.check)(k, a) end
function fragment.run(name, k, a)
  ackord.began = false
  return (name == 'cancel()' and ackord.cancel or ackord.enqueue)(k, a)
end
function fragment.hasWritten() return ackord.began end`),
}
