import { createHash } from 'node:crypto'

/** A Lua script. Every key that it touches is in KEYS: only then a cluster, an ACL and the client's key prefix know of it. */
export interface Script {
  readonly lua: string
  readonly sha: string
}

export function script(lua: string): Script {
  return { lua, sha: createHash('sha1').update(lua).digest('hex') }
}
