// A rank of Open MPI's all-reduce: mpirun ... mpi_rank CONTROL
#include <mpi.h>

#include <cstdio>

#include "reduce/peer.h"

namespace {

using rubato::bench::Member;

class OpenMpi final : public rubato::bench::Peer {
 public:
  using Peer::Peer;

 protected:
  void all_reduce(int) override {
    MPI_Allreduce(MPI_IN_PLACE, data().data(), static_cast<int>(data().size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("mpi_rank: started by build/bin/reduce, not by hand\n", stderr);
    return 2;
  }
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  {
    const Member member(argv[1], rank);
    OpenMpi mpi(member);
    rubato::bench::serve(member, mpi);
  }
  MPI_Finalize();
  return 0;
}
