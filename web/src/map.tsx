// The devices of a cluster: a cell each, grouped by node, coloured by its owner.
import { useMemo } from 'preact/hooks';
import { useTheme } from './chart';

// Held if it has a colour.
export interface Cell { words: string; colour?: string; href?: string; reserved?: boolean }
export interface MapNode { name: string; type: string; cells: (Cell | null)[]; down?: boolean }

function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}
export function useDark(): boolean {
  const theme = useTheme();
  return useMemo(isDark, [theme]);
}

export function heldIn(node: MapNode): number {
  return node.cells.filter((cell) => cell?.colour).length;
}

// `hover` hears what a cell is, '' when the pointer leaves.
export function DeviceMap({ nodes, hover }: { nodes: MapNode[]; hover: (words: string) => void }) {
  return (
    <div class="map" onMouseLeave={() => hover('')}>
      {nodes.map((node) => (
        <section class="node" key={node.name} aria-label={`${node.name}: ${heldIn(node)} of ${node.cells.length} held`}>
          <h3>{node.name} <small>{node.cells.length} {node.type}</small></h3>
          <div class="cells">
            {node.cells.map((cell, i) => {
              const words = cell?.words ?? (node.down ? 'down' : 'free');
              const style = cell?.colour ? { background: cell.colour } : {};
              const look = cell?.reserved ? 'reserved' : node.down && !cell ? 'down' : '';
              return cell?.href
                ? <a key={i} class="cell" style={style} href={cell.href} title={words} aria-label={words}
                  onMouseEnter={() => hover(words)} onFocus={() => hover(words)} />
                : <span key={i} class={`cell ${look}`} style={style} title={words} onMouseEnter={() => hover(words)} />;
            })}
          </div>
        </section>
      ))}
    </div>
  );
}
