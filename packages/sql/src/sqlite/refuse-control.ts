import { AckordError } from '@ackord/core'

/** What separates, and what may hold a semicolon that separates nothing: comments, texts, quoted names. */
const piece = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'[^']*'?|"[^"]*"?|`[^`]*`?|\[[^\]]*\]?|;|[A-Za-z_][\w$]*|[^\s]/g

/** Texts that were looked at and are fine: a service has few, and says them with every message. */
const fine = new Set<string>()
const most = 500

/** Throws at a text in which a statement would begin or end the transaction under our hands; savepoints are the handler's own business. */
export function refuseControl(sql: unknown): void {
  if (typeof sql !== 'string' || fine.has(sql)) return
  for (const words of statementsOf(sql)) {
    const [first = '', second = '', third = ''] = words
    const back = first === 'ROLLBACK' && (second === 'TO' || (second === 'TRANSACTION' && third === 'TO'))
    if (['BEGIN', 'COMMIT', 'END', 'ROLLBACK'].includes(first) && !back) throw refused()
  }
  if (fine.size >= most) fine.clear()
  fine.add(sql)
}

/** The first three words of each statement. A trigger holds statements of its own, up to its END. */
function* statementsOf(sql: string): Generator<readonly string[]> {
  let words: string[] = []
  let inTrigger = false
  for (const [text] of sql.matchAll(piece)) {
    if (text.startsWith('--') || text.startsWith('/*')) continue
    if (text !== ';') {
      if (words.length < 3) words.push(text.toUpperCase())
      continue
    }
    if (inTrigger) inTrigger = words[0] !== 'END'
    else {
      yield words
      inTrigger = words[0] === 'CREATE' && (words[1] === 'TRIGGER' || words[2] === 'TRIGGER')
    }
    words = []
  }
  if (!inTrigger) yield words
}

function refused(): AckordError {
  return new AckordError(
    'ACKORD_TRANSACTION_REQUIRED',
    'A statement would begin or end the transaction that the middleware owns. Throw to roll it back; use SAVEPOINT for a part of it.',
  )
}
