/** What EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) says of a node, as far as it is looked at here. */
interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Rows Removed by Index Recheck'?: number
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly PlanNode[]
}

export interface ExplainedPlan {
  readonly Plan: PlanNode
  readonly 'Execution Time': number
}

export interface PlanFigures {
  /** Whole reads of the table. */
  readonly seqScans: number
  /** Rows that were read and turned out not to be wanted. */
  readonly removed: number
  /** Blocks of 8 kB that were looked at, in memory or not. */
  readonly buffers: number
  readonly milliseconds: number
}

/** The figures of one statement. */
export function figuresOf({ Plan: root, 'Execution Time': milliseconds }: ExplainedPlan, table: string): PlanFigures {
  const nodes = [...nodesOf(root)]
  const seqScans = nodes.filter((node) => node['Node Type'] === 'Seq Scan' && node['Relation Name'] === table).length
  const removed = nodes.reduce((sum, node) => sum + removedBy(node), 0)
  return { seqScans, removed, buffers: root['Shared Hit Blocks'] + root['Shared Read Blocks'], milliseconds }
}

/** One line per node that reads or writes a table, with what it cost. The inner ones are further to the right. */
export function describePlan({ Plan: root }: ExplainedPlan): string {
  const lines: string[] = []
  const walk = (node: PlanNode, depth: number) => {
    const { 'Relation Name': relation, 'Index Name': index, 'Actual Rows': rows, 'Actual Loops': loops } = node
    if (relation !== undefined || index !== undefined) {
      const parts = [`rows ${rows} × ${loops}`, `buffers ${node['Shared Hit Blocks'] + node['Shared Read Blocks']}`]
      if (removedBy(node) > 0) parts.push(`removed ${removedBy(node)}`)
      lines.push(`${'  '.repeat(depth)}${node['Node Type']} ${[relation, index].filter(Boolean).join(' by ')}: ${parts.join(', ')}`)
    }
    for (const child of node.Plans ?? []) walk(child, depth + 1)
  }
  walk(root, 0)
  return lines.join('\n')
}

function* nodesOf(node: PlanNode): Generator<PlanNode> {
  yield node
  for (const child of node.Plans ?? []) yield* nodesOf(child)
}

function removedBy(node: PlanNode): number {
  const perLoop = (node['Rows Removed by Filter'] ?? 0) + (node['Rows Removed by Index Recheck'] ?? 0)
  return perLoop * node['Actual Loops']
}
