import { enqueueLua } from './enqueue-lua.ts'
import { ackordLua } from './lua.ts'

/**
 * For the top of a script of your own, so that a business write and its event are one step. The keys and arguments that `prepare()` gave go
 * anywhere among the script's own; `k` and `a` are the places of the first ones.
 *
 *     local problem = ackord.check(k, a)          -- before the script's first write
 *     if problem then return redis.error_reply(problem) end
 *     …                                            -- checks of your own, the types of your keys among them
 *     local stored = ackord.enqueue(k, a)          -- the events first
 *     …                                            -- then your own writes
 *
 * `ackord.enqueue` gives `<milliseconds>:` and a sign for each record: `+` inserted, `=` duplicate, `!` conflict. The name `ackord` is taken.
 */
export const outboxLua: string = `${ackordLua}
${enqueueLua}
`
