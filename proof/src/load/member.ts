/** What a process of the run says when it is asked. Bytes. */
export interface MemberReport {
  readonly rss: number
  /** After a garbage collection. */
  readonly heap: number
  /** Handlers that failed so far. */
  readonly failed: number
  /** Records that a relay has published so far. */
  readonly published: number
}

export interface Member {
  failed?(): number
  published?(): number
  /** Finishes what is in hand and closes every connection. */
  stop(): Promise<void>
}

/** The main function of a process: works, tells how much memory it has when it is asked to, and stops when it is told to. */
export async function runMember(start: () => Promise<Member>): Promise<void> {
  const member = await start()
  process.on('message', (order) => {
    if (order === 'report') {
      globalThis.gc?.()
      const { rss, heapUsed } = process.memoryUsage()
      const report: MemberReport = { rss, heap: heapUsed, failed: member.failed?.() ?? 0, published: member.published?.() ?? 0 }
      process.send?.(report)
    } else {
      void member.stop().then(() => process.disconnect())
    }
  })
  // It does not outlive whoever started it.
  process.on('disconnect', () => process.exit())
}
