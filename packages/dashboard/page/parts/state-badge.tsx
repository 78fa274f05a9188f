import type { VNode } from 'preact'

/** `state` selects the colour: a state of a record, or a class of style.css. */
export function StateBadge({ state, text = state }: { readonly state: string; readonly text?: string }): VNode {
  return <span class={`badge ${state}`}>{text}</span>
}
