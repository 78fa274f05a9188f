import { type Script, script } from '../script.ts'

/** A script of the outbox. By its name metrics tell how long it takes. */
export interface OutboxScript extends Script {
  readonly name: string
}

export function outboxScript(name: string, lua: string): OutboxScript {
  return { name, ...script(lua) }
}
