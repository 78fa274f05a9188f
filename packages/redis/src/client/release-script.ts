import { type Script, script } from './port.ts'

/** KEYS: a key that holds a token. ARGV: the token. Deletes the key if it still holds the token. Answers 1 or 0. */
export const releaseScript: Script = script(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)
